"""The actions of a policy. Each runs over a whole session, in the order that the policy gives."""
