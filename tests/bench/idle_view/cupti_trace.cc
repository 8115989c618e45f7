// A view of the steps that shares nothing with the engine: CUPTI's record of each graph launch.
//
//   CUDA_INJECTION64_PATH=.../librally_cupti_trace.so RALLY_CUPTI_FILE=out.csv decode_bench ...
//
// The CUDA driver loads this library when it starts and calls InitializeInjection. A line is
// "start_ns,end_ns,stream" of one graph launch on CUPTI's clock; compare.py reads them. Tracing
// graphs as a whole costs next to nothing; tracing their nodes would change what is measured.
#include <cupti.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

constexpr size_t kBufferBytes = size_t{8} << 20;
constexpr size_t kAlignment = 8;

struct Trace {
  std::mutex mutex;  // CUPTI completes buffers on a thread of its own
  std::FILE* file = nullptr;
  size_t dropped = 0;
};

// Never destroyed: CUPTI's thread may outlive static objects.
Trace& TheTrace() {
  static Trace* const trace = new Trace;
  return *trace;
}

bool Succeeded(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return true;
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "cupti_trace: %s: %s\n", what, text == nullptr ? "unknown error" : text);
  return false;
}

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void WriteRecord(const CUpti_Activity& record, std::FILE* file) {
  if (record.kind != CUPTI_ACTIVITY_KIND_GRAPH_TRACE) return;
  const auto& graph = reinterpret_cast<const CUpti_ActivityGraphTrace2&>(record);
  if (graph.start == 0 && graph.end == 0) return;  // no time stamps could be taken
  std::fprintf(file, "%" PRIu64 ",%" PRIu64 ",%u\n", graph.start, graph.end, graph.streamId);
}

void CUPTIAPI TakeBuffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                         size_t valid_bytes) {
  Trace& trace = TheTrace();
  {
    std::lock_guard lock(trace.mutex);
    CUpti_Activity* record = nullptr;
    while (trace.file != nullptr &&
           cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
      WriteRecord(*record, trace.file);
    }
    size_t dropped = 0;
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
      trace.dropped += dropped;
    }
  }
  std::free(buffer);
}

void Finish() {
  Succeeded(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "flushing");
  Trace& trace = TheTrace();
  std::lock_guard lock(trace.mutex);
  if (trace.dropped > 0) {
    std::fprintf(stderr, "cupti_trace: %zu records were dropped\n", trace.dropped);
  }
  if (trace.file != nullptr) std::fclose(trace.file);
  trace.file = nullptr;
}

}  // namespace

// Called by the driver; 1 means that all went well.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* path = std::getenv("RALLY_CUPTI_FILE");
  Trace& trace = TheTrace();
  trace.file = std::fopen(path == nullptr ? "cupti_trace.csv" : path, "w");
  if (trace.file == nullptr) {
    std::fprintf(stderr, "cupti_trace: RALLY_CUPTI_FILE: cannot write the file\n");
    return 0;
  }
  std::fputs("start_ns,end_ns,stream\n", trace.file);
  if (!Succeeded(cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer), "registering") ||
      !Succeeded(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE), "tracing graphs")) {
    return 0;
  }
  std::atexit(Finish);
  return 1;
}
