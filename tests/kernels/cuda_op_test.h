// Runs ops on the first GPU, on copies of what a test holds on the host. Skips where there is none.
#ifndef RALLY_TESTS_KERNELS_CUDA_OP_TEST_H_
#define RALLY_TESTS_KERNELS_CUDA_OP_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/device/cuda_device.h"
#include "kernels/ops.h"
#include "tests/kernels/op_test_util.h"

namespace rally {

class CudaOpTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (CudaDeviceCount(&why_none_) == 0) return;
    auto device = NewCudaDevice({});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  static void TearDownTestSuite() { device_.reset(); }

  void SetUp() override {
    if (device_ == nullptr) GTEST_SKIP() << "no GPU: " << why_none_;
    stream_ = *device_->NewStream();
  }
  void TearDown() override {
    if (stream_ != nullptr) Sync();
  }

  void Sync() {
    const absl::Status status = device_->Sync(*stream_);
    ASSERT_TRUE(status.ok()) << status;
  }

  // A copy in device memory that lives until the test ends.
  template <typename T>
  T* Send(const T* data, size_t count) {
    buffers_.push_back(*device_->Allocate(Space::kDevice, std::max<size_t>(count * sizeof(T), 1)));
    auto* copy = reinterpret_cast<T*>(buffers_.back()->data());
    stream_->Copy(copy, data, count * sizeof(T));
    Sync();
    return copy;
  }
  template <typename T>
  T* Send(const std::vector<T>& values) {
    return Send(values.data(), values.size());
  }
  RowCount Send(int32_t rows, int32_t max_rows) { return {Send(&rows, 1), max_rows}; }
  Matrix Send(TestMatrix& m) {
    Matrix copy = m.view();
    copy.data = Send(m.bytes());
    return copy;
  }

  template <typename T>
  void Receive(const T* device, size_t count, T* out) {
    stream_->Copy(out, device, count * sizeof(T));
    Sync();
  }
  TestMatrix Receive(const Matrix& device, int64_t rows) {
    TestMatrix m(rows, device.cols, device.dtype);
    Receive(static_cast<const std::byte*>(device.data), m.bytes().size(),
            static_cast<std::byte*>(m.view().data));
    return m;
  }

  const OpTable& ops() const { return device_->ops(); }

  static inline std::unique_ptr<Device> device_;
  static inline std::string why_none_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace rally

#endif  // RALLY_TESTS_KERNELS_CUDA_OP_TEST_H_
