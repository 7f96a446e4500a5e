"""The life of a build: pure rules, and the steps that use them.

Pure (no storage, no framework): ``lifecycle``, ``routing``, ``admission``, ``plan``, ``recipe``,
``results``, ``gates``, ``statement``, ``messages``. Steps: ``submit``, ``release``, ``claim``,
``heartbeat``, ``uploads``, ``finish``, ``settle``, ``publish``, ``conclude``, ``cancel``,
``enrol``, ``explain``; every state changes through ``moves``. Loops: ``dispatcher``, the publisher
(``settle`` and ``publish``), ``reconciler``, run by ``python -m tasks``.
"""
