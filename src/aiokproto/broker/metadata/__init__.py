"""What all nodes agree on: brokers, topics, leaders, features, options. Kept in a metadata log."""
