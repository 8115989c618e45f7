#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cli.h"
#include "tests/server/test_server.h"

namespace rally {
namespace {

using testing::HasSubstr;

struct Ran {
  int code;
  std::string out;
  std::string err;
};

Ran Rally(std::vector<std::string> args, const std::string& input = "", bool terminal = false) {
  std::istringstream in(input);
  std::ostringstream out, err;
  Io io{.in = in, .out = out, .err = err, .out_is_terminal = terminal, .color = terminal};
  const int code = RunCli(args, io);
  return {code, out.str(), err.str()};
}

std::vector<nlohmann::json> Lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(GenerateCommandTest, TextGoesToStdoutAndFiguresToStderr) {
  TestServer server;
  const Ran ran =
      Rally({"generate", "--addr", server.address(), "-n", "3", "-s", "9", "say", "hi"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "t0 t1 t2 ");
  EXPECT_THAT(ran.err, testing::AllOf(HasSubstr("3 tokens"), HasSubstr("tok/s"), HasSubstr("ttft"),
                                      HasSubstr("queue 1.0 ms"), HasSubstr("length"),
                                      HasSubstr("seed 9"), testing::Not(HasSubstr("\x1b"))));
  EXPECT_EQ(server.engine().accepted()[0].prompt_ids.size(), 6u) << "words are joined by blanks";
}

TEST(GenerateCommandTest, ReadsThePromptFromStdinWithoutItsLastLineEnd) {
  TestServer server;
  EXPECT_EQ(Rally({"--addr", server.address(), "generate", "-n", "1", "-q"}, "ab\ncd\n").code, 0);
  EXPECT_EQ(server.engine().accepted()[0].prompt_ids,
            (std::vector<int32_t>{'a', 'b', '\n', 'c', 'd'}));
}

TEST(GenerateCommandTest, SendsEachFlag) {
  TestServer server;
  EXPECT_EQ(Rally({"generate",
                   "--addr",
                   server.address(),
                   "--token-ids",
                   "1,2,256",
                   "-n",
                   "5",
                   "--min-tokens",
                   "2",
                   "-t",
                   "0.5",
                   "--top-k",
                   "7",
                   "--top-p",
                   "0.25",
                   "--min-p",
                   "0.125",
                   "--stop",
                   "a,b",
                   "--stop",
                   "c",
                   "--stop-token",
                   "3",
                   "--ignore-eos"})
                .code,
            0);
  const RequestSpec spec = server.engine().accepted().at(0);
  EXPECT_EQ(spec.prompt_ids, (std::vector<int32_t>{1, 2, 256}));
  EXPECT_EQ(spec.stop.max_tokens, 5);
  EXPECT_EQ(spec.stop.min_tokens, 2);
  EXPECT_EQ(spec.sampling.temperature, 0.5f);
  EXPECT_EQ(spec.sampling.top_k, 7);
  EXPECT_EQ(spec.sampling.top_p, 0.25f);
  EXPECT_EQ(spec.sampling.min_p, 0.125f);
  EXPECT_EQ(spec.stop.strings, (std::vector<std::string>{"a,b", "c"}));
  EXPECT_EQ(spec.stop.token_ids, std::vector<int32_t>{3});
  EXPECT_TRUE(spec.stop.ignore_eos);
}

TEST(GenerateCommandTest, JsonHasALineForEachMessage) {
  TestServer server;
  const Ran ran = Rally({"generate", "--addr", server.address(), "-n", "2", "--json", "a"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  const auto lines = Lines(ran.out);
  ASSERT_GE(lines.size(), 2u);
  std::string text;
  for (size_t i = 0; i + 1 < lines.size(); ++i) text += lines[i]["delta"]["text"];
  EXPECT_EQ(text, "t0 t1 ");
  EXPECT_EQ(lines.back()["finished"]["reason"], "FINISH_REASON_LENGTH");
  EXPECT_EQ(lines.back()["finished"]["usage"]["completion_tokens"], 2);
}

TEST(GenerateCommandTest, ErrorsNameTheFieldAndTheClassOfStatus) {
  TestServer server;
  const Ran ran = Rally({"generate", "--addr", server.address(), "--top-p", "3", "a"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("error: INVALID_ARGUMENT (INVALID_FIELD): top_p: 3 is not in"));
  const Ran json = Rally({"generate", "--addr", server.address(), "--top-p", "3", "--json", "a"});
  EXPECT_EQ(json.code, 3);
  const auto error = Lines(json.out).at(0)["error"];
  EXPECT_EQ(error["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(error["fields"][0]["field"], "top_p");

  EXPECT_EQ(Rally({"generate", "--addr", server.address(), "-m", "huge", "a"}).code, 3);
  server.engine().SetPaused(true);
  EXPECT_EQ(Rally({"generate", "--addr", server.address(), "--deadline", "50ms", "a"}).code, 5);
  server.engine().Lose();
  EXPECT_EQ(Rally({"generate", "--addr", server.address(), "--attempts", "1", "a"}).code, 4);
  EXPECT_EQ(Rally({"generate", "--deadline", "never", "a"}).code, 2);
  EXPECT_EQ(Rally({}).code, 2);
  EXPECT_EQ(Rally({"--help"}).code, 0);
}

TEST(GenerateCommandTest, ATerminalGetsALineEndAndADimFooter) {
  TestServer server;
  const Ran ran = Rally({"generate", "--addr", server.address(), "-n", "1", "a"}, "", true);
  EXPECT_EQ(ran.out, "t0 \n");
  EXPECT_THAT(ran.err, testing::StartsWith("\x1b[2m["));
}

TEST(HealthCommandTest, HasTheExitCodesOfGrpcHealthProbe) {
  TestServer server;
  Ran ran = Rally({"health", "--addr", server.address()});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "SERVING\n");
  EXPECT_EQ(
      Rally({"health", "--addr", server.address(), "--service", "rally.v1.GenerationService"}).code,
      0);
  EXPECT_EQ(Rally({"health", "--addr", server.address(), "--service", "no.such.Service"}).code, 3);
  server.grpc().StopServing();
  ran = Rally({"health", "--addr", server.address()});
  EXPECT_EQ(ran.code, 4);
  EXPECT_EQ(ran.out, "NOT_SERVING\n");
  const std::string address = server.address();
  server.grpc().Shutdown(absl::Now());
  EXPECT_EQ(Rally({"health", "--addr", address}).code, 2);
  EXPECT_EQ(Rally({"health", "--timeout", "never"}).code, 1);
}

}  // namespace
}  // namespace rally
