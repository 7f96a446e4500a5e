"""The HTTP client: :class:`FarmClient`, whose methods return views and raise the farm's errors.

with FarmClient("http://127.0.0.1:8080", key) as farm:
    model = farm.models.upload(Path("detector.onnx"))
    build, existed = farm.builds.submit(BuildSpec(model=model.digest, targets=["onnxruntime@cpu"]))
    for event in farm.builds.watch(build.id):
        ...
"""

from enginefarm.client.builds import Builds, LogPart
from enginefarm.client.farm import FarmClient
from enginefarm.client.local_model import LocalModel, read_local_model

__all__ = ["Builds", "FarmClient", "LocalModel", "LogPart", "read_local_model"]
