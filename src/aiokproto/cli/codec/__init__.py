"""``python -m aiokproto.codec``: look up the protocol, decode and encode it."""
