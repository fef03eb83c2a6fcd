"""The sink with ``semantics=exactly_once``: the rows of a batch become visible once, or not at all.

Who does what
=============

A *batch* is what Spark commits as a whole: a micro-batch of a stream, which a query id and a batch id name, or one
``df.write``, which a job id names. Three kinds of processes have a part in it::

    driver   plan      takes over the prefix; ends what an earlier run has left; gives ids to the tasks
    task     write     writes its rows in a transaction of its own, and exits without ending it (HandedOver)
    driver   commit    intent → EndTxn for each transaction → done
             abort     aborts what the tasks have left

**The state topic** has what the driver must not forget, under the *prefix* of the transactional ids: for each query or
job its last batch, as an intent or as done, and the ids that are free. It is compacted, so that these records stay.
A plan removes the oldest queries and jobs, so that a prefix with another job for each batch does not grow for ever, and
writes a *snapshot* of the prefix from time to time, where the next one begins to read.

**The commit point** is the intent: a record with the batch and all its transactions. Before it nothing of the batch is
visible, and it can be dropped. After it the batch is committed, whoever dies: the next plan finds the intent, and ends
the transactions that are still open (*roll forward*) before it gives work to anybody.

**A batch that Spark runs again** although it is done, because the driver died before Spark noted that, is recognised by
its number: the plan tells tasks the last one, and they write nothing. An earlier number is an error: the checkpoint is
an old one, and the rows may be others.

Why two drivers cannot both commit
==================================

Each record of the state topic is written in a transaction of the driver's own transactional id, ``<prefix>-driver``. A
plan acquires it, which fences all earlier plans. Its producer id and epoch (the *token*) go with the tasks' messages to
the commit, in another process, which continues with exactly these (KIP-360): if another plan came in between, the
coordinator refuses, and nothing was decided. So a commit is always that of the last plan, and a plan has read all that
was committed before it.

Why nothing but its EndTxn ends a transaction that was decided
==============================================================

Starting a producer with a transactional id aborts its open transaction. So a late attempt of a task (an executor that
hangs, a speculative copy) must never get the id of a transaction that is going to be committed, and Spark can start a
task any number of times. Ids cannot be new each time either: coordinators keep them for a week. Therefore:

- An id is *free* if the attempt that had it ended with a message that was committed: it will not use it again.
- A plan takes the free ids out of the state topic before any task starts. The first attempt of partition ``n`` gets the
  ``n``-th; every other attempt, and every partition without one, makes up a new one that nobody else can have.
- A stage that Spark runs again has first attempts again, and PySpark does not tell them apart. So an attempt first
  looks whether its id has the epoch that the last commit has left. If not, another one was there, and it makes up a new
  one. (Only one that stops between this look and its start could still abort a transaction; the next step, or EndTxn,
  reports that. It looks again after its start, and then writes nothing under this id.)
- The commit makes the ids of its transactions free, together with done.

A stream whose tasks do not fail so uses the same ids for ever, as many as it has partitions; a failure costs new ones.

**Orphans** are open transactions of attempts without a message in the commit. Readers wait for them, so each plan and
each commit lists all open transactions with the prefix, when no intent is open, and aborts them. Between these two it
looks whether the driver's id is still its own: a driver that hung before would abort what its successor has decided.

Timeouts
========

The coordinator aborts a transaction after ``transaction.timeout.ms``, also one that was decided. With two-phase commit
(KIP-939) it does not, and plans use this where the brokers grant it. Without it:

- Before the intent the driver asks the coordinators whether all transactions are still open. If one is not, the batch
  fails, and nothing was decided.
- Only a driver that dies between the intent and the last EndTxn, and does not come back before the timeout, leaves a
  *loss*: transactions that were decided and aborted. If none was committed, the intent is taken back, and Spark writes
  the batch again: still exactly once. If some were, :class:`TransactionLossError` says so, in every run, until
  ``onTransactionLoss`` says what to do.

Modules
=======

``protocol`` has the records of the state topic, and what follows from them; pure. ``coordinator`` plans, commits and
aborts, over ``state_topic`` and ``transactions``, which do the requests; ``snapshot_offset`` says where to begin to
read; ``driver`` runs it. ``tasks`` writes the rows of a task. ``writers`` has the classes that Spark calls.
"""
