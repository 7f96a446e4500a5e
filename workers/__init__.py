"""What happens on a node: discovery, backends, measurement, sandbox, executor, heartbeat.

A node holds no database, bucket or signing credential; this package never imports ``storage``.
"""
