"""Records in responses to Fetch and ShareFetch: cut into chunks without decoding, and opened in short steps.

What the consumer and the share consumer have in common. Both receive record sets of megabytes, and must neither decode
them in one turn of the event loop nor keep more of them than their limits allow.
"""
