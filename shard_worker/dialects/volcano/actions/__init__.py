"""The actions of a policy, each over a whole session, run in the order the policy names them."""
