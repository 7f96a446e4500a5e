"""The life of a build: pure rules, and the steps that use them.

Pure (no storage, no framework): ``lifecycle``, ``routing``, ``admission``, ``plan``, ``recipe``,
``results``, ``gates``, ``schedule``, ``statement``, ``messages``. Steps: ``submit`` (with
``quotas``), ``release``, ``claim``, ``heartbeat``, ``uploads``, ``finish``, ``settle`` and
``publish`` (with ``proof`` and ``renewal``), ``conclude``, ``cancel``, ``bump``, ``enrol``,
``explain``; every state changes through ``moves``. Loops: ``dispatcher``, the publisher
(``settle`` and ``publish``), ``reconciler`` (with ``sweep``), run by ``python -m tasks``. At the
steps in ``fault_points`` a test may let a process die.
"""
