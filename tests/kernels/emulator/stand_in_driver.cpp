// Stands in for the CUDA driver: a module's image is the path of a library that holds the emulated kernels. Its file must not
// bear the driver's name, which NVRTC opens by itself.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <string>

#include "launch.h"

namespace {
constexpr const char kMagic[] = "emulated kernels at ";
constexpr int kInvalidValue = 1, kInvalidImage = 200, kInvalidContext = 201, kNotFound = 500, kLaunchFailed = 719;

int contexts[8], depth, ordinal_in_use = -1, driver_version = 13000;
unsigned order;
long launches;
void* stream_in_use;
std::string failing;
int failure;

bool fails(const char* function) { return failing == function; }
}  // namespace

extern "C" {
void stand_in_set_order(unsigned value) { order = value; }
void stand_in_set_version(int value) { driver_version = value; }
void stand_in_fail(const char* function, int code) { failing = function; failure = code; }
long stand_in_launches() { return launches; }
int stand_in_depth() { return depth; }
int stand_in_ordinal() { return ordinal_in_use; }
unsigned long long stand_in_stream() { return (unsigned long long)stream_in_use; }

int cuInit(unsigned) { return fails("cuInit") ? failure : 0; }
int cuDriverGetVersion(int* version) { *version = driver_version; return 0; }
int cuGetErrorString(int code, const char** text) {
  static char buffer[64];
  snprintf(buffer, sizeof buffer, "stand-in failure %d", code);
  *text = buffer;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return ordinal < 8 ? 0 : 101; }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = &contexts[device]; return 0; }
int cuCtxPushCurrent_v2(void* context) {
  ++depth;
  ordinal_in_use = (int*)context - contexts;
  return 0;
}
int cuCtxPopCurrent_v2(void**) { --depth; return 0; }

int cuModuleLoadData(void** module, const void* image) {
  if (depth < 1) return kInvalidContext;
  if (fails("cuModuleLoadData")) return failure;
  if (strncmp((const char*)image, kMagic, strlen(kMagic))) return kInvalidImage;
  *module = dlopen((const char*)image + strlen(kMagic), RTLD_NOW | RTLD_LOCAL);
  if (!*module) fprintf(stderr, "stand-in driver: %s\n", dlerror());
  return *module ? 0 : kInvalidImage;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = dlsym(module, (std::string("emulated_") + name).c_str());
  return *function ? 0 : kNotFound;
}
int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned, void* stream, void** arguments, void** extra) {
  if (depth < 1) return kInvalidContext;
  const unsigned threads = block_x * block_y * block_z;
  if (!grid_x || !grid_y || grid_y > 65535 || !grid_z || !threads || threads > 1024 || extra) return kInvalidValue;
  if (fails("cuLaunchKernel")) return failure;
  ++launches;
  stream_in_use = stream;
  const char* fault = emulated::launch((emulated::Entry)function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                                       arguments, order);
  if (fault) fprintf(stderr, "emulated kernel: %s\n", fault);
  return fault ? kLaunchFailed : 0;
}
}
