/* Lets TensorRT's Python bindings be imported without TensorRT, to read their names: every factory
   returns NULL, so nothing can be built. See describe.py. */
#include <stddef.h>

void *createInferBuilder_INTERNAL(void *logger, int version) { return NULL; }
void *createInferRefitter_INTERNAL(void *engine, void *logger, int version) { return NULL; }
void *createInferRuntime_INTERNAL(void *logger, int version) { return NULL; }
void *createNvOnnxParserRefitter_INTERNAL(void *refitter, void *logger, int version) { return NULL; }
void *createNvOnnxParser_INTERNAL(void *network, void *logger, int version) { return NULL; }
void *getBuilderPluginRegistry(int capability) { return NULL; }
void *getPluginRegistry(void) { return NULL; }
int getNvOnnxParserVersion(void) { return 0; }
int initLibNvInferPlugins(void *logger, const char *space) { return 0; }
