"""Records in responses to Fetch and ShareFetch: cut into chunks without decoding, and opened in short steps.

This code is shared by the consumer and the share consumer. Both receive record sets of several megabytes. They must not
decode these in one turn of the event loop, or keep more of them than their limits allow.
"""
