"""The whole cluster: intake, order, partition, dispatch, bind, and the processes around them."""
