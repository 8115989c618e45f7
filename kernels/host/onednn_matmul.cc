#include "kernels/host/onednn_matmul.h"

#include <algorithm>
#include <dnnl.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/host/parallel.h"

namespace rally {
namespace {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

dnnl::memory::data_type DataType(DType t) {
  return t == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

Desc WeightDesc(const OneDnnShape& s) {
  Tag tag = Tag::ba;
  if (s.panels) tag = s.dtype == DType::kBF16 ? Tag::BA16a64b2a : Tag::BA16a64b;
  return Desc({s.k, s.n}, DataType(s.dtype), tag);
}

// oneDNN tunes a primitive for the OpenMP threads of the thread that makes it.
class ScopedThreads {
 public:
  explicit ScopedThreads(int threads) : before_(ParallelThreads()) { SetParallelThreads(threads); }
  ~ScopedThreads() { SetParallelThreads(before_); }
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  const int before_;
};

dnnl::matmul::primitive_desc Describe(const OneDnnShape& s, int32_t rows,
                                      const dnnl::engine& engine) {
  const Desc x(Dims{rows, s.k}, DataType(s.dtype), Dims{s.x_stride, 1});
  const Desc out(Dims{rows, s.n}, DataType(s.out_dtype), Dims{s.out_stride, 1});
  const Desc bias = s.bias ? Desc(Dims{1, s.n}, dnnl::memory::data_type::f32, Tag::ab) : Desc();
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine, x, WeightDesc(s), bias, out, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, WeightDesc(s), bias, out), attributes,
                                      engine);
#endif
}

// One row count, with its memory objects made once: a call only moves their pointers.
struct Rung {
  int32_t rows;
  dnnl::matmul primitive;
  dnnl::memory x, weight, bias, out, scratch;
};

class LadderPlan final : public OneDnnPlan {
 public:
  explicit LadderPlan(const OneDnnShape& shape)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    size_t scratch_bytes = 1;
    for (int32_t rows = 1; rows < shape.max_rows; rows = Next(rows)) {
      if (rows >= shape.min_rows) AddRung(shape, rows, &scratch_bytes);
    }
    AddRung(shape, shape.max_rows, &scratch_bytes);
    scratch_.resize(scratch_bytes);
  }

  absl::Status Run(int32_t rows, void* x, void* weight, void* bias, void* out) const override {
    const auto it = std::lower_bound(rungs_.begin(), rungs_.end(), rows,
                                     [](const Rung& rung, int32_t n) { return rung.rows < n; });
    if (it == rungs_.end()) {
      return absl::InternalError(absl::StrCat("matmul of ", rows, " rows is above its limit"));
    }
    try {
      it->x.set_data_handle(x);
      it->weight.set_data_handle(weight);
      it->out.set_data_handle(out);
      it->scratch.set_data_handle(scratch_.data());
      if (bias != nullptr) it->bias.set_data_handle(bias);
      const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, it->x.get()},
                                      {DNNL_ARG_WEIGHTS, it->weight.get()},
                                      {DNNL_ARG_DST, it->out.get()},
                                      {DNNL_ARG_SCRATCHPAD, it->scratch.get()},
                                      {DNNL_ARG_BIAS, bias == nullptr ? nullptr : it->bias.get()}};
      dnnl::error::wrap_c_api(
          dnnl_primitive_execute(it->primitive.get(), stream_.get(), bias == nullptr ? 4 : 5, args),
          "could not run a matmul");
    } catch (const dnnl::error& e) {
      return absl::InternalError(absl::StrCat("oneDNN matmul: ", e.what()));
    }
    return absl::OkStatus();
  }

 private:
  // 1 2 4 8 16 32 48 64 96 128 192 256 384 512 ...
  static int32_t Next(int32_t rows) {
    const bool power = (rows & (rows - 1)) == 0;
    if (rows < 32) return rows * 2;
    return power ? rows / 2 * 3 : rows / 3 * 4;
  }

  void AddRung(const OneDnnShape& shape, int32_t rows, size_t* scratch_bytes) {
    const dnnl::matmul::primitive_desc desc = Describe(shape, rows, engine_);
    const auto memory = [&](const Desc& d) { return dnnl::memory(d, engine_, nullptr); };
    rungs_.push_back({rows, dnnl::matmul(desc), memory(desc.src_desc()),
                      memory(desc.weights_desc()), memory(desc.bias_desc()),
                      memory(desc.dst_desc()), memory(desc.scratchpad_desc())});
    *scratch_bytes = std::max(*scratch_bytes, desc.scratchpad_desc().get_size());
  }

  const dnnl::engine engine_;
  const dnnl::stream stream_;
  std::vector<Rung> rungs_;
  mutable std::vector<char> scratch_;
};

}  // namespace

absl::StatusOr<const OneDnnPlan*> OneDnnPlans::Get(const OneDnnShape& shape) {
  for (const Entry& entry : entries_) {
    if (entry.shape == shape) return entry.plan.get();
  }
  const ScopedThreads scope(threads_);
  try {
    entries_.push_back({shape, std::make_unique<LadderPlan>(shape)});
  } catch (const dnnl::error& e) {
    return absl::InternalError(absl::StrCat("oneDNN has no matmul of ",
                                            std::string(DTypeName(shape.dtype)), " ", shape.k, "x",
                                            shape.n, ": ", e.what()));
  }
  return entries_.back().plan.get();
}

bool OneDnnHasTiles() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto amx = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  return (isa & amx) == amx;
}

}  // namespace rally
