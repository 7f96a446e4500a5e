"""The flags of trtexec that have no place in a build of the farm, and why each has none.

Which version of TensorRT dropped a flag was read off its source, from 8 up to 11.1.
"""

from __future__ import annotations

from typing import NamedTuple

from enginefarm.errors import InvalidRequest


class Why(NamedTuple):
    """A reason, and what to do instead."""

    why: str
    fix: str


def _of(names: str, why: str, fix: str) -> dict[str, Why]:
    return {name: Why(why, fix) for name in names.split()}


_DROPPED_IN_11 = "It is a precision flag, and TensorRT 11.0 dropped it: precision is in the model."
_PRECISE = {
    name: Why(_DROPPED_IN_11, fix)
    for name, fix in {
        "fp16": "Leave it out and give --precision fp16.",
        "bf16": "Leave it out and give --precision bf16.",
        "int8": "Leave it out and give --precision int8 --calibration FILE.npz.",
        "best": "Leave it out and give one --precision: fp16, bf16 or int8.",
    }.items()
} | _of(
    "fp8 int4 calib calibProfile minShapesCalib optShapesCalib maxShapesCalib layerPrecisions"
    " layerOutputTypes precisionConstraints",
    _DROPPED_IN_11,
    "Leave it out; what --precision takes is in the help of submit.",
)
_DROPPED = _of(
    "restricted weightless",
    "TensorRT 11.0 dropped it.",
    "Leave it out; --stripWeights is what weightless was called later.",
) | _of(
    "batch buildOnly deploy explicitBatch explicitPrecision heuristic maxBatch minTiming model"
    " nativeInstanceNorm ni nvtxMode output uff uffInput uffNHWC workspace",
    "TensorRT 10.0 dropped it.",
    "Leave it out; a workspace is --memPoolSize=workspace:MIB.",
)
_MEASURES = _of(
    "accuracyAlgorithm accuracyThreshold allocationStrategy atol avgRuns continue dryRun dumpOutput"
    " dumpOptimizationProfile dumpProfile dumpRawBindingsToFile dumpRefit exportOutput"
    " exportProfile exportTimes exposeDMA idleTime includeDataTransfers"
    " loadInputs loadRefOutputs noDataTransfers noSpinWait percentile"
    " persistentCacheRatio refPair rtol separateProfileRun sleepTime streams threads"
    " timeDeserialize timeRefit tuneBuildRouteFile tuneBuildRoutes tuningCacheFile tuningResultFile"
    " tuningSearch tuningTimeOut useManagedMemory useProfile useRuntime useSpinWait"
    " weightStreamingBudget",
    "It measures or runs the engine in a way that the farm does not.",
    "Leave it out; how engines are measured is --option benchmark.warmup_ms=200 and the like.",
)
_FILES = _of(
    "asyncFileReader getPlanVersionOnly leanDLLPath loadEngine refitFromOnnx saveAllEngines"
    " saveDebugTensors saveAllDebugTensors saveEngine tempdir tempfileControls",
    "It names a file or folder of the machine that trtexec runs on.",
    "Leave it out; enginefarm pull brings the engine.",
) | _of(
    "onnx",
    "The model is the argument of submit.",
    "Leave it out and give the file as MODEL.",
)
_PLUGINS = _of(
    "enablePluginOverride ignoreParsedPluginLibs pi pluginInstanceNorm",
    "The farm decides how a model is parsed, and always keeps TensorRT's own plugins.",
    "Leave it out.",
) | _of(
    "safetyPlugins",
    "It is for the safety runtime, which is no target of the farm.",
    "Leave it out.",
)
_PLACES = _of(
    "adjustForDLA allowGPUFallback buildDLAStandalone layerDeviceTypes reportCapabilityDLA"
    " uint8AsymmetricQuantizationDLA useDLACore",
    "The farm has no target with a DLA.",
    "Leave it out.",
) | _of(
    "device",
    "Which GPU builds is the target's to say.",
    "Leave it out and give --target tensorrt@sm_89, say.",
)
_SAFETY = _of(
    "consistency cpuOnly dumpKernelText remoteAutoTuningConfig safe serialized std",
    "It builds for the safety runtime, which is no target of the farm.",
    "Leave it out.",
)
_CACHES = _of(
    "timingCacheFile",
    "A timing cache is code, and the farm takes none from a person.",
    "Leave it out.",
)
_OTHER = _of(
    "decomposableAttentions dumpLayerInfo exportLayerInfo help helpBuildRoute inputIOFormats"
    " markDebug markUnfusedTensorsAsDebugTensors outputIOFormats preview tacticSources verbose",
    "The farm has no option for it.",
    "Leave it out; layers.json of an artifact has the layers, and enginefarm logs what was said.",
)


def refused_pool(part: str) -> InvalidRequest:
    """Return the refusal of a memory pool that only a DLA has."""
    why = _PLACES["useDLACore"]
    return InvalidRequest(
        f"The farm does not take trtexec's --memPoolSize={part[:40]}.",
        code="trtexec_flag_refused",
        why=why.why,
        fix=why.fix,
        flag="memPoolSize",
    )


REFUSED: dict[str, Why] = {
    **_PRECISE,
    **_DROPPED,
    **_MEASURES,
    **_FILES,
    **_PLUGINS,
    **_PLACES,
    **_SAFETY,
    **_CACHES,
    **_OTHER,
}
"""Every flag of trtexec from 8 up to 11.1 that is neither taken nor already the farm's way."""
