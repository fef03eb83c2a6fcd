"""From sockets to handlers: listeners, connections, frames, the dispatch of requests."""
