"""Commands about scheduling: explain, plan, story, queue, shard, top."""
