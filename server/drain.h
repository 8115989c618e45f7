// The orderly end: no running request is cut before its time.
#ifndef RALLY_SERVER_DRAIN_H_
#define RALLY_SERVER_DRAIN_H_

#include <functional>

#include "absl/time/time.h"
#include "server/grpc_server.h"
#include "server/inference_service.h"
#include "server/router.h"

namespace rally {

struct DrainTimes {
  absl::Duration delay;    // goes on accepting, until load balancers have seen NOT_SERVING
  absl::Duration timeout;  // then running requests may take so long
};

// Waits for that long at most; true as soon as the operator is in a hurry (a second signal).
using HurryWait = std::function<bool(absl::Duration)>;

// Health NOT_SERVING -> delay -> refuse new requests -> running ones end, or get UNAVAILABLE at the
// timeout -> the gRPC server is shut down. `hurry` cuts both waits short.
void Drain(const DrainTimes& times, const HurryWait& hurry, const Router& router,
           InferenceService& service, GrpcServer& server);

}  // namespace rally

#endif  // RALLY_SERVER_DRAIN_H_
