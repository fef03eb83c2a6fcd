"""Clients and brokers in virtual time, under faults that a seed decides.

=====================================================  =======================================================
what holds in every schedule                           where
=====================================================  =======================================================
an acknowledged record is written, once, in order      ``test_producer_seeds`` over ``producing``
a consumer's group loses no record in a rebalance      ``test_consumer_seeds`` over ``consuming``: ``groups``,
and commits nothing that it hasn't delivered           ``epochs`` (KIP-848), ``migrations``
a member commits only what it owned without a break    ``test_identity_seeds`` over ``identity``
a transaction is written whole or not at all           ``test_transaction_seeds`` over ``transacting``
consume-transform-produce has each record's effect     ``test_transaction_seeds`` over ``exactly_once``
once
a share group delivers each record until it's          ``test_share_consumers`` over ``sharing``
accepted or rejected
a cancelled call leaves the client usable              ``test_cancelling_*`` over ``cancelling``
hostile peers cost little, and end nothing else        ``test_hostile_*``, ``test_misbehaving_peers``
memory doesn't grow with time                          ``test_growing``, ``test_idle``
=====================================================  =======================================================

``SIMULATION_FIRST=500 SIMULATION_SEEDS=1 pytest tests/simulation/test_consumer_seeds.py -k "groups-0"`` runs one seed:
block 0 holds it, and the other blocks are empty. A failure prints the call that repeats it, with the fewest faults that
``shrinking`` finds. ``mutants`` removes the guards that are marked in the source, to show that these tests notice.
"""
