// The fixture of the device conformance tests; each kind of device is one instantiation.
#ifndef RALLY_TESTS_KERNELS_DEVICE_CONFORMANCE_H_
#define RALLY_TESTS_KERNELS_DEVICE_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "kernels/device/device.h"
#include "tests/kernels/host_gate.h"

namespace rally {

struct DeviceCase {
  std::string name;
  std::function<std::unique_ptr<Device>()> make;
  void (*hold)(Stream& stream, HostGate& gate);  // enqueues the gate
  bool independent_streams;                      // a gate in one stream does not hold the others
};

inline std::string DeviceCaseName(const testing::TestParamInfo<DeviceCase>& info) {
  return info.param.name;
}

class DeviceConformanceTest : public testing::TestWithParam<DeviceCase> {
 protected:
  struct Cells {
    int64_t source = 0, target = 0, grown = 0;
  };

  std::unique_ptr<Stream> NewStream() { return *device_->NewStream(); }
  std::unique_ptr<Event> NewEvent() { return *device_->NewEvent(); }
  static void Hold(Stream& stream, HostGate& gate) { GetParam().hold(stream, gate); }
  static void Copy(Stream& stream, int64_t* dst, const int64_t* src) {
    stream.Copy(dst, src, sizeof *dst);
  }
  // Two copies, since one end of a copy is always in the device's own memory.
  void Relay(Stream& stream) {
    Copy(stream, middle_, &cells_.source);
    Copy(stream, &cells_.target, middle_);
  }
  static absl::Time Soon() { return absl::Now() + absl::Milliseconds(5); }
  static absl::Time Late() { return absl::Now() + absl::Seconds(60); }

  std::unique_ptr<Device> device_ = GetParam().make();
  std::unique_ptr<Buffer> host_ = *device_->Allocate(Space::kPinnedHost, sizeof(Cells));
  std::unique_ptr<Buffer> own_ = *device_->Allocate(Space::kDevice, sizeof(int64_t));
  Cells& cells_ = *new (host_->data()) Cells;
  int64_t* const middle_ = reinterpret_cast<int64_t*>(own_->data());
};

}  // namespace rally

#endif  // RALLY_TESTS_KERNELS_DEVICE_CONFORMANCE_H_
