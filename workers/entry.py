"""Start a node: probe, enrol, then a Celery worker that hears rings and a thread that beats.

The Celery process stays light: it imports no runtime, one slot is one forked process for one task
at a time, and the work is in that process's own child. The ring is acknowledged early, because the
lease in the database, not the broker, brings a lost job back.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import celery.worker.state
import structlog
from celery import signals

from enginefarm import logs
from enginefarm.errors import FarmError, NotServed
from enginefarm.state import Stage
from tasks.app import make_app
from tasks.messages import RUN_TASK, Assignment, Device, NodeBeatReply, NodeDescription, Progress
from tasks.routing import NODE_STAGES
from workers import executor, node, processes
from workers.farm_api import WorkerApi
from workers.flower import FlowerRelay
from workers.gpu import caring
from workers.gpu.need import GpuRules
from workers.leaving import Leaving
from workers.missing import tell_absent
from workers.plugins.copying import Shelf
from workers.plugins.folder import Library
from workers.plugins.losing import Losses
from workers.probe import Probe, probe_in_child
from workers.settings import NodeSettings
from workers.standing import Standing

log = structlog.get_logger(__name__)


def main(arguments: Sequence[str]) -> int:
    """Run a node until it is told to stop."""
    logs.configure()
    signal.signal(signal.SIGTERM, _leave)  # until the worker has handlers of its own
    settings = logs.settings_or_leave(lambda: read_settings(arguments))
    try:
        found = probe_in_child(settings.devices, settings.pythons, settings.node_plugins)
    except FarmError as error:
        log.error("node_not_started", code=error.code, message=str(error))  # noqa: TRY400 - said in full
        return 1
    tell_absent(found)
    description = _described(found, settings)
    try:
        state = node.enrol(
            settings.url,
            settings.enrolment_token.get_secret_value(),
            settings.node_name,
            description,
            patience_s=settings.enrol_timeout_s,
            previous=node.remembered(settings.node_state_dir),
        )
        if not state.queues:
            raise NotServed(
                "This node serves no queue.",
                code="node_serves_nothing",
                why=f"No backend loads here: {found.absent or 'none is installed'}.",
                fix="Install a backend's packages on the node.",
            )
    except FarmError as error:
        log.error("node_not_started", code=error.code, message=str(error))  # noqa: TRY400 - said in full
        return 1
    node.save(state, settings.node_state_dir)
    clear_scratch(settings)
    return run_worker(settings, state, description, found.libraries)


def _described(found: Probe, settings: NodeSettings) -> NodeDescription:
    wanted = {"tensorrt": settings.measure_tensorrt, "tensorrt-rtx": settings.measure_rtx}
    return node.describe(
        found,
        settings.stages,
        settings.slots,
        settings.job_memory_bytes,
        unmeasured=[name for name, measures in wanted.items() if not measures],
    )


def read_settings(arguments: Sequence[str]) -> NodeSettings:
    """Return the settings; what the command says goes before the environment."""
    parser = argparse.ArgumentParser(prog="workers", description=__doc__)
    parser.add_argument("--name", help="the node's name; default: the machine's")
    parser.add_argument("--slots", type=int, help="jobs at one time")
    parser.add_argument("--stages", nargs="+", type=Stage, help=", ".join(NODE_STAGES))
    parser.add_argument("--devices", nargs="+", help="GPUs: UUIDs or numbers, or none")
    asked = parser.parse_args(arguments)
    given = {"node_name": asked.name, "slots": asked.slots, "stages": asked.stages}
    given["devices"] = asked.devices
    return NodeSettings.model_validate(
        NodeSettings(**{key: value for key, value in given.items() if value is not None})
    )


def scratch_of(settings: NodeSettings) -> Path:
    """Return the folder in which jobs have their scratch folders."""
    return settings.node_state_dir.resolve() / "scratch"


def faults_of(settings: NodeSettings) -> Path:
    """Return the file that tells which GPUs are out, and why."""
    return settings.node_state_dir.resolve() / "devices.json"


def clear_scratch(settings: NodeSettings) -> None:
    """Remove what jobs of an earlier life left behind."""
    scratch = scratch_of(settings)
    if scratch.exists():
        shutil.rmtree(scratch)
    scratch.mkdir(parents=True, mode=node.FOLDER_MODE)


def run_worker(
    settings: NodeSettings,
    state: node.NodeState,
    description: NodeDescription,
    libraries: Sequence[Library] = (),
) -> int:
    """Run the Celery worker in this process; ``libraries``: those that the node announces."""
    app = _app(settings)
    hostname = f"{settings.node_name}@{description.hostname}"
    api = WorkerApi(state.url, state.credential)
    consumers = _Consumers(app, hostname, state.queues)
    disowned = threading.Event()

    def leave() -> None:
        disowned.set()
        os.kill(os.getpid(), signal.SIGTERM)

    beats = node.NodeBeatThread(api, state, description, _running_jobs, consumers.obey, leave)
    standing = Standing(description, beats.describe)
    losses = Losses(standing.plugin_gone)
    declare_task(app, settings, state, description.devices, Shelf(libraries, losses.tell))
    worker = _worker(app, settings, hostname, state.queues)
    care = _care_for(settings, description, standing)

    def start(**_: object) -> None:
        beats.start()
        care.start()
        losses.start()

    signals.worker_ready.connect(start, weak=False)
    leaving = Leaving(settings.node_grace_s, _job_processes)
    signals.worker_shutting_down.connect(lambda **_: leaving.begin(), weak=False)
    signals.worker_shutting_down.connect(lambda **_: beats.drain(), weak=False)
    worker.start()
    care.stop()
    beats.stop()
    api.close()
    return 1 if disowned.is_set() else int(worker.exitcode or 0)


def _app(settings: NodeSettings) -> Any:  # noqa: ANN401 - Celery has no types
    app = make_app(settings.broker_url.get_secret_value())
    app.conf.update(worker_hijack_root_logger=False, worker_redirect_stdouts=False)
    signals.setup_logging.connect(_keep_logging, weak=False)
    return app


def _worker(app: Any, settings: NodeSettings, hostname: str, queues: Sequence[str]) -> Any:  # noqa: ANN401 - Celery has no types
    return app.Worker(
        hostname=hostname,
        pool="prefork",
        concurrency=settings.slots,
        max_tasks_per_child=1,
        queues=list(queues),
        task_events=True,
        without_mingle=True,
        without_gossip=True,
        quiet=True,
    )


def _care_for(
    settings: NodeSettings, description: NodeDescription, standing: Standing
) -> caring.DeviceCare:
    """Return what takes a GPU out of service that is unwell, and back when it is well."""
    faults = faults_of(settings)
    caring.write_faults(faults, {})
    return caring.DeviceCare(
        [row.uuid for row in description.devices if row.uuid is not None],
        settings.device_lock_dir,
        faults,
        standing.devices_out,
    )


def declare_task(
    app: Any,  # noqa: ANN401 - Celery has no types
    settings: NodeSettings,
    state: node.NodeState,
    devices: Sequence[Device],
    plugins: Shelf,
) -> None:
    """Register the one task: try to claim the attempt that a ring names."""

    @app.task(name=RUN_TASK, bind=True, ignore_result=True)  # type: ignore[untyped-decorator]  # Celery has no types
    def run(self: Any, job_id: str, attempt: int) -> str:  # noqa: ANN401 - as above
        signal.signal(signal.SIGTERM, _leave)
        processes.adopt_orphans()  # this process serves one task and ends
        api = WorkerApi(state.url, state.credential)
        request = self.request
        try:
            with FlowerRelay(app, request.id, request.hostname) as relay:
                shop = _workshop(settings, devices, api, relay, plugins)
                return executor.attempt(shop, job_id, attempt)
        except FarmError as error:
            # The database, not Celery, decides about another attempt.
            log.warning("attempt_not_made", job=job_id, code=error.code, why=str(error))
            return f"not made: {error.code}"
        finally:
            processes.kill_descendants()
            api.close()


def _workshop(
    settings: NodeSettings,
    devices: Sequence[Device],
    api: WorkerApi,
    relay: FlowerRelay,
    plugins: Shelf,
) -> executor.Workshop:
    def show(_assignment: Assignment, progress: Progress) -> None:
        relay.show(progress)

    return executor.Workshop(
        api=api,
        scratch=scratch_of(settings),
        devices=devices,
        job_log_bytes=settings.job_log_bytes,
        job_memory_bytes=settings.job_memory_bytes,
        pythons=settings.pythons,
        gpus=GpuRules(
            lock_folder=settings.device_lock_dir,
            share=settings.share_devices,
            wait_s=settings.device_wait_s,
            times=settings.benchmark_times,
            faults=caring.read_faults(faults_of(settings)),
        ),
        plugins=plugins,
        on_progress=show,
    )


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """Leave by way of every ``finally``: the child dies and the job is handed back."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # told twice is told once
    sys.exit(0)


def _keep_logging(**_: object) -> None:
    """Celery would set up logging of its own where nobody answers this signal."""


def _job_processes() -> list[int]:
    """Return the processes of this node's slots that have a job."""
    running = [request.worker_pid for request in list(celery.worker.state.active_requests)]
    return [pid for pid in running if pid is not None]


def _running_jobs() -> list[str]:
    return [
        str(request.kwargs["job_id"])
        for request in list(celery.worker.state.active_requests)
        if "job_id" in (request.kwargs or {})
    ]


class _Consumers:
    """Which queues this worker listens to, changed as the farm wishes."""

    def __init__(self, app: Any, hostname: str, queues: Sequence[str]) -> None:  # noqa: ANN401 - as above
        self._app = app
        self._hostname = hostname
        self._queues = set(queues)

    def obey(self, reply: NodeBeatReply) -> None:
        wanted = set() if reply.drain else set(reply.queues)
        for queue in sorted(self._queues - wanted):
            self._app.control.cancel_consumer(queue, destination=[self._hostname])
        for queue in sorted(wanted - self._queues):
            self._app.control.add_consumer(queue, destination=[self._hostname])
        if wanted != self._queues:
            log.info("node_queues_changed", queues=sorted(wanted), drain=reply.drain)
        self._queues = wanted
