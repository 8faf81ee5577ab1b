"""Search by hyper node domains, from the closest tier up."""
