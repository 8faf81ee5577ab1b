"""The scheduling policy: its values (``model``), and the reader of Volcano's file (``volcano``)."""
