"""Timing caches of TensorRT: which one an attempt gets, and how its own timings are kept.

A cache holds compiled code. So a namespace is one tenant's, and one of a backend's full version,
its CUDA, one GPU by name and the options that change a timing; where any of these is not certain,
there is no cache. Nothing of it decides whether a build is good.
"""

from __future__ import annotations

from typing import Any

import structlog

from enginefarm.compile_options import UNTIMED, TimingReuse
from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import Conflict
from enginefarm.plugins import Named
from enginefarm.state import Stage
from enginefarm.target import Target
from storage import attempts, blobs, builds, jobs, timing_caches
from storage.database import Session
from storage.models import Job, Node, TimingCache, TimingUse
from tasks import lease, sent
from tasks.farm import Farm
from tasks.fleet import description_of
from tasks.messages import NodeDescription
from tasks.routing import NO_PLUGINS, plugins_of
from tasks.timing_messages import (
    TIMING_CACHE_TYPE,
    TimingFile,
    TimingMerge,
    TimingOffer,
    TimingRefusal,
    TimingReply,
)

_log = structlog.get_logger()
CHILD_CRASHED = "child_crashed"
"""The code of an attempt whose process died of a signal of its own."""
TIMED_BACKENDS = frozenset({"tensorrt"})
"""Backends that time kernels; TensorRT-RTX does not, and is not asked."""


def namespace_of(
    target: Target,
    version: str,
    options: dict[str, Any],
    node: NodeDescription,
    plugins: Named = NO_PLUGINS,
) -> dict[str, Any] | None:
    """Return what parts the caches of a build on a node; None where something is not certain."""
    if target.backend not in TIMED_BACKENDS or options.get("timing_cache") == TimingReuse.OFF:
        return None
    cuda = {
        row.cuda for row in node.backends if (row.name, row.version) == (target.backend, version)
    }
    gpus = {row.name for row in node.devices if row.arch == target.arch}
    if len(cuda) != 1 or len(gpus) != 1 or None in cuda:
        return None
    flags = {name: value for name, value in options.items() if name not in UNTIMED}
    # A plugin's kernels are timed, too, and under the same name may be others in another library.
    loaded = {"plugins": sorted(plugins[target.backend])} if plugins.get(target.backend) else {}
    return {
        "backend": target.backend,
        "version": version,
        "cuda": cuda.pop(),
        "gpu": gpus.pop(),
        "flags": flags,
    } | loaded


def offer(session: Session, farm: Farm, job: Job, node: Node) -> TimingOffer | None:
    """Return the cache that an attempt begins with, and remember that it got it."""
    if job.stage != Stage.COMPILE:
        return None
    target, options = Target.parse(job.target), (job.recipe or {}).get("options") or {}
    version = job.backend_version or ""
    plugins = plugins_of(job.recipe)
    parts = namespace_of(target, version, options, description_of(node), plugins)
    if parts is None:
        return None
    namespace = digest_of(canonical_json(parts))
    cache = timing_caches.ensure(session, job.tenant_id, namespace, parts)
    reuse = TimingReuse(options.get("timing_cache") or TimingReuse.AUTO)
    crashed = job.attempt > 1 and attempts.has_failed(session, job, CHILD_CRASHED)
    # A snapshot may be what the runtime crashes on: then no build of the namespace would end.
    fresh = crashed and reuse is TimingReuse.AUTO
    given = None if fresh else timing_caches.given(session, cache)
    timing_caches.note_use(session, cache, job.id, job.attempt, given)
    told = {"reuse": reuse, "begin_fresh": fresh}
    return _as_it_is(session, farm, cache).model_copy(update=told)


def _as_it_is(session: Session, farm: Farm, cache: TimingCache) -> TimingOffer:
    row = timing_caches.given(session, cache)
    newest = None
    if row is not None:
        url = farm.objects.presign_get(row.digest, seconds=farm.policy.transfer_s)
        newest = TimingFile(digest=row.digest, size=row.size, url=url)
    return TimingOffer(namespace=cache.namespace, generation=cache.generation, newest=newest)


def merge(farm: Farm, node_id: str, job_id: str, message: TimingMerge) -> TimingReply:
    """Take an attempt's cache as the newest if it holds the newest; else say what to merge with.

    Raises:
        LeaseLost: the attempt is no longer this node's.
        Conflict: the attempt was given no namespace (code ``timing_cache_unasked``).
        JobFailed: the bytes are not there as announced.
    """
    with farm.database.transaction() as session:
        job = lease.require(
            jobs.lock(session, job_id), node_id, message.attempt, message.lease_token
        )
        attempt = attempts.find(session, job_id, job.attempt)
        _use_of(session, job)
    if attempt is None or message.digest not in attempt.places:
        raise _unasked()
    sent.prove(farm, attempt, [(message.digest, message.size, TIMING_CACHE_TYPE)])
    with farm.database.transaction() as session:
        builds.lock_tenant(session, job.tenant_id)
        job = lease.require(
            jobs.lock(session, job_id), node_id, message.attempt, message.lease_token
        )
        reply = _merged(session, farm, job, message)
    _log.info("timing_cache_offered", job=job_id, taken=reply.taken, why=reply.why)
    return reply


def _merged(session: Session, farm: Farm, job: Job, message: TimingMerge) -> TimingReply:
    use = _use_of(session, job)
    timing_caches.count(session, use, message.hits)
    cache = timing_caches.find(session, use.tenant_id, use.namespace)
    if cache is None:
        raise _unasked()
    why = _not_wanted(session, cache, job, message)
    if why is not None:
        now = _as_it_is(session, farm, cache)
        return TimingReply(taken=False, over=True, why=why, now=now)
    made = timing_caches.Made(message.digest, message.size, message.entries, job.id)
    taken = timing_caches.advance(session, cache, message.base, made)
    if taken:
        blobs.record(session, job.tenant_id, message.digest, message.size, TIMING_CACHE_TYPE)
    cache = timing_caches.find(session, use.tenant_id, use.namespace) or cache
    why = "" if taken else "another build was first"
    return TimingReply(taken=taken, over=taken, why=why, now=_as_it_is(session, farm, cache))


def _not_wanted(session: Session, cache: TimingCache, job: Job, message: TimingMerge) -> str | None:
    options = (job.recipe or {}).get("options") or {}
    if options.get("timing_cache") == TimingReuse.REQUIRED:
        return "a build that must time nothing offers nothing"
    if cache.pinned is not None:
        return "the namespace is pinned"
    if message.base < cache.floor:
        return "the namespace was dropped meanwhile"
    known = timing_caches.snapshots(session, cache)
    if any(
        row.digest == message.digest and row.why and row.generation > cache.floor for row in known
    ):
        return "this very snapshot is quarantined"
    newest = timing_caches.given(session, cache)
    return "nothing is new in it" if newest and newest.digest == message.digest else None


def refuse(farm: Farm, node_id: str, job_id: str, message: TimingRefusal) -> TimingReply:
    """Put away a snapshot that a runtime did not take: nobody gets it any more.

    Raises:
        LeaseLost: the attempt is no longer this node's.
        Conflict: its namespace has no such snapshot (code ``timing_cache_unasked``).
    """
    with farm.database.transaction() as session:
        found = jobs.find(session, job_id)
        builds.lock_tenant(session, found.tenant_id if found is not None else "")
        job = lease.require(
            jobs.lock(session, job_id), node_id, message.attempt, message.lease_token
        )
        use = _use_of(session, job)
        cache = timing_caches.find(session, use.tenant_id, use.namespace)
        known = [] if cache is None else timing_caches.snapshots(session, cache)
        named = [row for row in known if row.digest == message.digest]
        if cache is None or not named:
            raise _unasked()
        if use.digest == message.digest:
            use.digest, use.refused = None, message.digest
        for row in named:
            if row.state == timing_caches.KEPT:
                timing_caches.quarantine(session, cache, row, message.why)
                _log.error("timing_cache_quarantined", digest=row.digest, why=message.why)
        cache = timing_caches.find(session, use.tenant_id, use.namespace) or cache
        return TimingReply(taken=True, over=False, now=_as_it_is(session, farm, cache))


def _use_of(session: Session, job: Job) -> TimingUse:
    use = timing_caches.use_of(session, job.id, job.attempt)
    if use is None:
        raise _unasked()
    return use


def _unasked() -> Conflict:
    return Conflict(
        "This attempt has no such timing cache.",
        code="timing_cache_unasked",
        why="A node may offer and refuse only what its claim, or a place it asked for, gave it.",
        fix="Bring the node to the farm's version.",
    )
