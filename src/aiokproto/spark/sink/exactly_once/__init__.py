"""The sink with ``semantics=exactly_once``: the rows of a batch become visible once, or not at all.

Who does what
=============

A *batch* is what Spark commits as a whole: a micro-batch of a stream, identified by a query id and a batch id, or one
``df.write``, identified by a job id. Three kinds of processes take part::

    driver   plan      takes over the prefix; ends what an earlier run has left; gives ids to the tasks
    task     write     writes its rows in a transaction of its own, and exits without ending it (HandedOver)
    driver   commit    intent → EndTxn for each transaction → done
             abort     aborts what the tasks have left

**The state topic** keeps what the driver must not forget, under the *prefix* of the transactional ids: the last batch
of each query or job, as an intent or as done, and the free ids. It's compacted, so these records stay. A plan removes
the oldest queries and jobs; otherwise a prefix with a new job for each batch would grow forever. From time to time it
writes a *snapshot* of the prefix, and the next plan starts reading there.

**The commit point** is the intent: a record with the batch and all its transactions. Before the intent no row of the
batch is visible, and the batch can be dropped. After it the batch is committed, whichever process dies: the next plan
finds the intent, and ends the transactions that are still open (*roll forward*) before any task starts.

**A repeated batch**: if the driver dies before Spark has recorded that a batch is done, Spark runs the batch again. The
plan gives the tasks the number of the last batch, so they recognise it and write nothing. An earlier number is an
error: the checkpoint is an old one, and its rows may differ.

Why two drivers cannot both commit
==================================

Each record of the state topic is written in a transaction of the driver's own transactional id, ``<prefix>-driver``. A
plan acquires the id, which fences all earlier plans. The tasks' messages carry its producer id and epoch (the *token*)
to the commit, which runs in another process and continues with exactly these (KIP-360). If another plan came in
between, the coordinator refuses the commit, and nothing was decided. So only the last plan's batch can be committed,
and a plan has read everything that was committed before it.

Why only EndTxn ends a transaction that was decided
===================================================

Starting a producer with a transactional id aborts the id's open transaction. So a late attempt of a task (an executor
that hangs, a speculative copy) must never get the id of a transaction that is going to be committed, and Spark can
start a task any number of times. Ids can't be new each time either: coordinators keep them for a week.
Therefore:

- An id is *free* if the attempt that had it ended with a message that was committed: it won't use the id again.
- A plan takes the free ids out of the state topic before any task starts. The first attempt of partition ``n`` gets the
  ``n``-th id. Every other attempt, and every partition without a free id, makes up a new one that is unique.
- If Spark runs a stage again, its tasks have first attempts again, and PySpark doesn't tell them apart. So an attempt
  first checks that its id still has the epoch that the last commit left. If not, another attempt has used the id, and
  this one makes up a new one. (Only an attempt that stops between this check and its start could still abort a
  transaction. The next step, or EndTxn, reports that. The attempt checks again after its start, and then writes nothing
  under this id.)
- The commit frees the ids of its transactions, together with the record that marks the batch as done.

So a stream whose tasks don't fail uses the same ids forever, as many as it has partitions. A failure uses up new ids.

**Orphans** are open transactions of attempts without a message in the commit. Readers wait for them, so each plan and
each commit lists all open transactions with the prefix, when no intent is open, and aborts them. Between the two steps
it checks that the driver's id is still its own. Otherwise a driver that hung could abort what its successor has
decided.

Timeouts
========

The coordinator aborts a transaction after ``transaction.timeout.ms``, even if it was decided. With two-phase commit
(KIP-939) it doesn't, and plans use this if the brokers grant it. Without it:

- Before the intent the driver asks the coordinators whether all transactions are still open. If one isn't, the batch
  fails, and nothing was decided.
- Only a driver that dies between the intent and the last EndTxn, and doesn't come back before the timeout, leaves a
  *loss*: transactions that were decided, but aborted. If none was committed, the intent is taken back, and Spark writes
  the batch again, still exactly once. If some were committed, :class:`TransactionLossError` says so, in every run,
  until ``onTransactionLoss`` says what to do.

Modules
=======

``protocol`` defines the records of the state topic, and what follows from them; it's pure. ``coordinator`` plans,
commits and aborts; ``state_topic`` and ``transactions`` send its requests. ``tasks`` writes the rows of a task.
``writers`` has the classes that Spark calls, and runs the coordinator.
"""
