"""A policy as values (``model``), and the reader of Volcano's file (``volcano``)."""
