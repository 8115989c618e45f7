#include "server/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"
#include "rally/v1/generation.pb.h"

namespace rally {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr int32_t kIntMin = std::numeric_limits<int32_t>::min();

ParserLimits Limits() {
  return {.model_name = "tiny",
          .vocab_size = 300,
          .context_tokens = 100,
          .max_prompt_bytes = 1000,
          .defaults = {}};
}

v1::GenerateRequest Plain() {
  v1::GenerateRequest request;
  request.set_text("hello");
  return request;
}

// The field that an error names; empty if it names none.
std::string NamedField(const absl::Status& status) {
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  google::rpc::BadRequest bad;
  if (!payload || !bad.ParseFromString(std::string(*payload))) return "";
  return bad.field_violations(0).field();
}

struct BadCase {
  const char* field;
  std::function<void(v1::GenerateRequest&)> spoil;
};

TEST(RequestParserTest, NamesEachBadField) {
  using R = v1::GenerateRequest;
  const BadCase cases[] = {
      {"temperature", [](R& r) { r.set_temperature(kNan); }},
      {"temperature", [](R& r) { r.set_temperature(kInf); }},
      {"temperature", [](R& r) { r.set_temperature(-kInf); }},
      {"temperature", [](R& r) { r.set_temperature(-0.001f); }},
      {"temperature", [](R& r) { r.set_temperature(100.01f); }},
      {"top_k", [](R& r) { r.set_top_k(-1); }},
      {"top_k", [](R& r) { r.set_top_k(kIntMin); }},
      {"top_p", [](R& r) { r.set_top_p(kNan); }},
      {"top_p", [](R& r) { r.set_top_p(0); }},
      {"top_p", [](R& r) { r.set_top_p(-0.0f); }},
      {"top_p", [](R& r) { r.set_top_p(1.0001f); }},
      {"min_p", [](R& r) { r.set_min_p(kNan); }},
      {"min_p", [](R& r) { r.set_min_p(-0.1f); }},
      {"min_p", [](R& r) { r.set_min_p(1.1f); }},
      {"max_tokens", [](R& r) { r.set_max_tokens(0); }},
      {"max_tokens", [](R& r) { r.set_max_tokens(-1); }},
      {"min_tokens", [](R& r) { r.set_min_tokens(-1); }},
      {"min_tokens", [](R& r) { r.set_min_tokens(257); }},
      {"min_tokens", [](R& r) { r.set_max_tokens(3), r.set_min_tokens(4); }},
      {"stop_strings",
       [](R& r) {
         for (int i = 0; i < 17; ++i) r.add_stop_strings("x");
       }},
      {"stop_strings[1]", [](R& r) { r.add_stop_strings("x"), r.add_stop_strings(""); }},
      {"stop_strings[0]", [](R& r) { r.add_stop_strings(std::string(257, 'x')); }},
      {"stop_token_ids",
       [](R& r) {
         for (int i = 0; i < 17; ++i) r.add_stop_token_ids(1);
       }},
      {"stop_token_ids[0]", [](R& r) { r.add_stop_token_ids(-1); }},
      {"stop_token_ids[1]", [](R& r) { r.add_stop_token_ids(0), r.add_stop_token_ids(300); }},
      {"stop_token_ids[0]", [](R& r) { r.add_stop_token_ids(kIntMax); }},
      {"request_id", [](R& r) { r.set_request_id(std::string(129, 'a')); }},
      {"request_id", [](R& r) { r.set_request_id("a\nb"); }},
      {"request_id", [](R& r) { r.set_request_id("\xc3\xa9"); }},
      {"prompt", [](R& r) { r.clear_text(); }},
      {"text", [](R& r) { r.set_text(""); }},
      {"text", [](R& r) { r.set_text(std::string(1001, 'x')); }},
      {"token_ids", [](R& r) { r.mutable_token_ids(); }},
      {"token_ids", [](R& r) { r.mutable_token_ids()->mutable_ids()->Resize(100, 1); }},
      {"token_ids.ids[1]",
       [](R& r) { r.mutable_token_ids()->add_ids(0), r.mutable_token_ids()->add_ids(300); }},
      {"token_ids.ids[0]", [](R& r) { r.mutable_token_ids()->add_ids(-1); }},
  };
  for (const BadCase& c : cases) {
    v1::GenerateRequest request = Plain();
    c.spoil(request);
    const auto parsed = ParseGenerateRequest(request, Limits());
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << request.ShortDebugString();
    EXPECT_EQ(NamedField(parsed.status()), c.field) << request.ShortDebugString();
  }
}

TEST(RequestParserTest, TakesTheEndsOfEachRange) {
  using R = v1::GenerateRequest;
  const std::function<void(R&)> cases[] = {
      [](R& r) { r.set_temperature(0); },
      [](R& r) { r.set_temperature(100); },
      [](R& r) { r.set_temperature(std::numeric_limits<float>::denorm_min()); },
      [](R& r) { r.set_top_k(0); },
      [](R& r) { r.set_top_k(kIntMax); },
      [](R& r) { r.set_top_p(1); },
      [](R& r) { r.set_top_p(1e-9f); },
      [](R& r) { r.set_min_p(0), r.set_min_p(1); },
      [](R& r) { r.set_max_tokens(1); },
      [](R& r) { r.set_max_tokens(kIntMax), r.set_min_tokens(kIntMax); },
      [](R& r) {
        for (int i = 0; i < 16; ++i) r.add_stop_strings(std::string(256, 'x'));
      },
      [](R& r) {
        for (int i = 0; i < 16; ++i) r.add_stop_token_ids(299);
      },
      [](R& r) { r.set_request_id(std::string(128, '~')); },
      [](R& r) { r.set_text(std::string(1000, 'x')); },
      [](R& r) { r.mutable_token_ids()->mutable_ids()->Resize(99, 299); },
      [](R& r) { r.set_model("tiny"); },
  };
  for (const auto& change : cases) {
    v1::GenerateRequest request = Plain();
    change(request);
    EXPECT_TRUE(ParseGenerateRequest(request, Limits()).ok()) << request.ShortDebugString();
  }
}

TEST(RequestParserTest, NegativeZeroIsZero) {
  v1::GenerateRequest request = Plain();
  request.set_temperature(-0.0f);
  request.set_min_p(-0.0f);
  const auto parsed = ParseGenerateRequest(request, Limits());
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(std::signbit(parsed->spec.sampling.temperature));
  EXPECT_FALSE(std::signbit(parsed->spec.sampling.min_p));
}

TEST(RequestParserTest, AbsentMeansTheModelsDefaultsAndZeroDoesNot) {
  ParserLimits limits = Limits();
  limits.defaults = {.temperature = 0.6f, .top_k = 50, .top_p = 0.9f};
  auto parsed = ParseGenerateRequest(Plain(), limits);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->spec.sampling.temperature, 0.6f);
  EXPECT_EQ(parsed->spec.sampling.top_k, 50);
  EXPECT_EQ(parsed->spec.sampling.top_p, 0.9f);
  EXPECT_EQ(parsed->spec.stop.max_tokens, 256);
  EXPECT_FALSE(parsed->has_seed);
  EXPECT_TRUE(parsed->encode.add_special_tokens);
  EXPECT_FALSE(parsed->encode.parse_special_tokens);

  v1::GenerateRequest request = Plain();
  request.set_temperature(0);
  request.set_top_k(0);
  request.set_top_p(1);
  request.set_seed(0);
  request.set_add_special_tokens(false);
  parsed = ParseGenerateRequest(request, limits);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->spec.sampling.temperature, 0);
  EXPECT_EQ(parsed->spec.sampling.top_k, 0);
  EXPECT_EQ(parsed->spec.sampling.top_p, 1);
  EXPECT_TRUE(parsed->has_seed);
  EXPECT_FALSE(parsed->encode.add_special_tokens);
}

TEST(RequestParserTest, ModelDefaultsOutOfRangeAreIgnored) {
  ModelConfig config;
  config.has_temperature = config.has_top_k = config.has_top_p = true;
  config.temperature = kNan;
  config.top_k = -1;
  config.top_p = 0;
  const SamplingDefaults defaults = SamplingDefaultsOf(config);
  EXPECT_EQ(defaults.temperature, 1);
  EXPECT_EQ(defaults.top_k, 0);
  EXPECT_EQ(defaults.top_p, 1);
}

TEST(RequestParserTest, OtherModelIsNotFound) {
  v1::GenerateRequest request = Plain();
  request.set_model("huge");
  EXPECT_TRUE(absl::IsNotFound(ParseGenerateRequest(request, Limits()).status()));
}

TEST(RequestParserTest, TooLongPromptNamesBothNumbers) {
  const absl::Status status = CheckPromptTokens(100, "text", Limits());
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("100 tokens"), testing::HasSubstr("of 100")));
  EXPECT_TRUE(CheckPromptTokens(99, "text", Limits()).ok());
  EXPECT_FALSE(CheckPromptTokens(0, "text", Limits()).ok());
}

TEST(RequestParserTest, ChecksTokenizeAndDetokenize) {
  v1::TokenizeRequest tokenize;
  EXPECT_TRUE(CheckTokenizeRequest(tokenize, Limits()).ok());
  tokenize.set_text(std::string(1001, 'x'));
  EXPECT_EQ(NamedField(CheckTokenizeRequest(tokenize, Limits())), "text");
  v1::DetokenizeRequest detokenize;
  detokenize.add_token_ids(299);
  EXPECT_TRUE(CheckDetokenizeRequest(detokenize, Limits()).ok());
  detokenize.add_token_ids(300);
  EXPECT_EQ(NamedField(CheckDetokenizeRequest(detokenize, Limits())), "token_ids[1]");
  detokenize.mutable_token_ids()->Resize(101, 1);
  EXPECT_EQ(NamedField(CheckDetokenizeRequest(detokenize, Limits())), "token_ids");
}

}  // namespace
}  // namespace rally
