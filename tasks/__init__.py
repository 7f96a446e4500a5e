"""The life of a build: pure rules, and the steps that use them.

Pure (no storage, no framework): ``lifecycle``, ``routing``, ``recipe``, ``plan``, ``gates``,
``admission``, ``messages``. Steps: ``submit``, ``claim``, ``heartbeat``, ``uploads``, ``finish``,
``settle``, ``publish``, ``cancel``. Loops: ``dispatcher``, ``publisher``, ``reconciler``, run by
``python -m tasks``.
"""
