"""Transactions: records and offsets in many partitions, committed or aborted together (KIP-98, KIP-890)."""
