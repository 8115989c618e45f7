#include "server/error_details.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace rally {
namespace {

constexpr absl::Duration kDefaultRetryDelay = absl::Milliseconds(200);

std::string TypeUrl(const google::protobuf::Message& detail) {
  return absl::StrCat("type.googleapis.com/", detail.GetDescriptor()->full_name());
}

void AddDetail(const google::protobuf::Message& detail, absl::Status& status) {
  status.SetPayload(TypeUrl(detail), absl::Cord(detail.SerializeAsString()));
}

void AddErrorInfo(absl::string_view reason, absl::string_view field, absl::Status& status) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(std::string(kErrorDomain));
  if (!field.empty()) (*info.mutable_metadata())["field"] = std::string(field);
  AddDetail(info, status);
}

void AddRetryInfo(absl::Duration delay, absl::Status& status) {
  google::rpc::RetryInfo retry;
  const int64_t ms = absl::ToInt64Milliseconds(delay);
  retry.mutable_retry_delay()->set_seconds(ms / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(ms % 1000) * 1'000'000);
  AddDetail(retry, status);
}

absl::string_view DefaultReason(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
      return "CANCELLED";
    case absl::StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case absl::StatusCode::kInvalidArgument:
      return "INVALID_REQUEST";
    case absl::StatusCode::kResourceExhausted:
      return "OVERLOADED";
    case absl::StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case absl::StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    default:
      return "INTERNAL";
  }
}

bool HidesText(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

bool IsRetryable(absl::StatusCode code) {
  return code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kUnavailable;
}

}  // namespace

absl::Status InvalidField(absl::string_view field, absl::string_view description) {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(field, ": ", description));
  AddErrorInfo("INVALID_FIELD", field, status);
  google::rpc::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field(std::string(field));
  violation->set_description(std::string(description));
  AddDetail(bad, status);
  return status;
}

absl::Status ErrorWithReason(absl::StatusCode code, absl::string_view reason,
                             absl::string_view message) {
  absl::Status status(code, message);
  AddErrorInfo(reason, "", status);
  return status;
}

absl::Status RetryableError(absl::StatusCode code, absl::string_view reason,
                            absl::string_view message, absl::Duration retry_delay) {
  absl::Status status = ErrorWithReason(code, reason, message);
  AddRetryInfo(retry_delay, status);
  return status;
}

absl::Status WithDefaultDetails(const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status out = HidesText(status.code())
                         ? absl::Status(status.code(), "internal error; the server's log says more")
                         : status;
  if (!out.GetPayload(TypeUrl(google::rpc::ErrorInfo())).has_value()) {
    AddErrorInfo(DefaultReason(out.code()), "", out);
  }
  if (IsRetryable(out.code()) && !out.GetPayload(TypeUrl(google::rpc::RetryInfo())).has_value()) {
    AddRetryInfo(kDefaultRetryDelay, out);
  }
  return out;
}

WireStatus ToWireStatus(const absl::Status& status) {
  WireStatus wire;
  if (status.ok()) return wire;
  const absl::Status full = WithDefaultDetails(status);
  google::rpc::Status rpc;
  rpc.set_code(static_cast<int>(full.code()));
  rpc.set_message(std::string(full.message()));
  full.ForEachPayload([&](absl::string_view type_url, const absl::Cord& bytes) {
    auto* any = rpc.add_details();
    any->set_type_url(std::string(type_url));
    any->set_value(std::string(bytes));
    google::rpc::RetryInfo retry;
    if (type_url == TypeUrl(retry) && retry.ParseFromString(any->value())) {
      wire.retry_pushback_ms =
          retry.retry_delay().seconds() * 1000 + retry.retry_delay().nanos() / 1'000'000;
    }
  });
  wire.code = rpc.code();
  wire.message = rpc.message();
  wire.details = rpc.SerializeAsString();
  return wire;
}

}  // namespace rally
