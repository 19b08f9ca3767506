// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/cublas.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <cmath>
#include <map>
#include <span>
#include <tuple>

#include "runtime/backend/cuda/handles.h"

namespace runnel::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32}
                                        << 20;  // what the vendor recommends for Hopper
constexpr int kMostCandidates = 12;  // kernels of the library's proposal that are timed, each
constexpr int kTrials = 3;           // so often, for products of a multiple of
constexpr int kTimedTokens = 512;    // tokens

struct Library {
  void* handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;

  ~Library() {
    if (handle != nullptr) dlclose(handle);
  }

  bool open() {
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so"}) {
      handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr) break;
    }
    if (handle == nullptr) return false;
    return find(create, "cublasLtCreate") && find(destroy, "cublasLtDestroy") &&
           find(matmul, "cublasLtMatmul") && find(desc_create, "cublasLtMatmulDescCreate") &&
           find(desc_destroy, "cublasLtMatmulDescDestroy") &&
           find(desc_set, "cublasLtMatmulDescSetAttribute") &&
           find(layout_create, "cublasLtMatrixLayoutCreate") &&
           find(layout_destroy, "cublasLtMatrixLayoutDestroy") &&
           find(preference_create, "cublasLtMatmulPreferenceCreate") &&
           find(preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
           find(preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
           find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  }

  template <class F>
  bool find(F& f, const char* name) {
    f = reinterpret_cast<F>(dlsym(handle, name));
    return f != nullptr;
  }
};

using Shape = std::tuple<int, int, int, int, int, int, bool, bool>;

/// One prepared product.
struct Prepared {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algo{};
  bool usable = false;
};

}  // namespace

struct CublasLt::Impl {
  Library library;
  cublasLtHandle_t handle = nullptr;
  DeviceMemory workspace;
  std::map<Shape, Prepared> prepared;

  ~Impl() {
    for (auto& [shape, p] : prepared) {
      if (p.a != nullptr) library.layout_destroy(p.a);
      if (p.b != nullptr) library.layout_destroy(p.b);
      if (p.c != nullptr) library.layout_destroy(p.c);
      if (p.desc != nullptr) library.desc_destroy(p.desc);
    }
    if (handle != nullptr) library.destroy(handle);
  }

  /// Column-major to the library: C^T [rows, T] = B^T-as-stored [K, rows] transposed times A^T [K, T].
  bool prepare(cudaStream_t stream, const Matmul& m, Prepared& p) {
    const auto ok = [](cublasStatus_t s) { return s == CUBLAS_STATUS_SUCCESS; };
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cudaDataType_t out = m.c_bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const auto u = [](int v) { return static_cast<std::uint64_t>(v); };
    if (!ok(library.desc_create(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F)) ||
        !ok(library.desc_set(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                             sizeof transposed)) ||
        !ok(library.layout_create(&p.a, CUDA_R_16BF, u(m.inner), u(m.rows), m.ldb)) ||
        !ok(library.layout_create(&p.b, CUDA_R_16BF, u(m.inner), u(m.tokens), m.lda)) ||
        !ok(library.layout_create(&p.c, out, u(m.rows), u(m.tokens), m.ldc))) {
      return false;
    }
    cublasLtMatmulPreference_t preference = nullptr;
    if (!ok(library.preference_create(&preference))) return false;
    cublasLtMatmulHeuristicResult_t results[kMostCandidates] = {};
    int found = 0;
    const std::size_t most = kWorkspaceBytes;
    const bool done =
        ok(library.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                  sizeof most)) &&
        ok(library.heuristic(handle, p.desc, p.a, p.b, p.c, p.c, preference,
                             worth_timing(stream, m) ? kMostCandidates : 1, results, &found)) &&
        found > 0;
    library.preference_destroy(preference);
    if (!done) return false;
    p.algo = results[0].algo;
    if (found > 1) choose(stream, m, p, std::span(results, static_cast<std::size_t>(found)));
    return true;
  }

  /// Whole passes come again and again; a rest of any length may never. What is being recorded cannot be timed.
  static bool worth_timing(cudaStream_t stream, const Matmul& m) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return m.tokens % kTimedTokens == 0 && cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
           status == cudaStreamCaptureStatusNone;
  }

  bool run(cudaStream_t stream, const Matmul& m, const Prepared& p,
           const cublasLtMatmulAlgo_t& algo, void* c) {
    const float one = 1.0F, beta = m.add ? 1.0F : 0.0F;
    return library.matmul(handle, p.desc, &one, m.b, p.a, m.a, p.b, &beta, c, p.c, c, p.c, &algo,
                          workspace.get(), kWorkspaceBytes, stream) == CUBLAS_STATUS_SUCCESS;
  }

  /// The fastest of the library's proposals, by running each on the operands at hand. What is
  /// added to C must not be added again: then the results go elsewhere. Without the memory for
  /// that, or on any error, the library's first proposal stays.
  void choose(cudaStream_t stream, const Matmul& m, Prepared& p,
              std::span<const cublasLtMatmulHeuristicResult_t> results) {
    DeviceMemory aside;
    if (m.add) {
      const std::size_t bytes =
          static_cast<std::size_t>(m.tokens) * static_cast<std::size_t>(m.ldc) * (m.c_bf16 ? 2 : 4);
      auto memory = allocate_device(bytes, "results of a trial product");
      if (!memory) return;
      aside = *std::move(memory);
      if (cudaMemsetAsync(aside.get(), 0, bytes, stream) != cudaSuccess) return;
    }
    auto start = create_event(), end = create_event();
    if (!start || !end) return;
    void* const c = m.add ? aside.get() : m.c;
    float best = INFINITY;
    for (const cublasLtMatmulHeuristicResult_t& r : results) {
      if (r.state != CUBLAS_STATUS_SUCCESS) continue;
      bool fine =
          run(stream, m, p, r.algo, c) && cudaEventRecord(start->get(), stream) == cudaSuccess;
      for (int i = 0; i < kTrials; ++i) fine = fine && run(stream, m, p, r.algo, c);
      float ms = 0.0F;
      if (fine && cudaEventRecord(end->get(), stream) == cudaSuccess &&
          cudaEventSynchronize(end->get()) == cudaSuccess &&
          cudaEventElapsedTime(&ms, start->get(), end->get()) == cudaSuccess && ms < best) {
        best = ms;
        p.algo = r.algo;
      }
    }
  }
};

CublasLt::CublasLt(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CublasLt::~CublasLt() = default;

std::unique_ptr<CublasLt> CublasLt::load() {
  auto impl = std::make_unique<Impl>();
  if (!impl->library.open()) return nullptr;
  if (impl->library.create(&impl->handle) != CUBLAS_STATUS_SUCCESS) return nullptr;
  auto workspace = allocate_device(kWorkspaceBytes, "matrix product workspace");
  if (!workspace) return nullptr;
  impl->workspace = *std::move(workspace);
  return std::unique_ptr<CublasLt>(new CublasLt(std::move(impl)));
}

bool CublasLt::matmul(cudaStream_t stream, const Matmul& m) {
  const Shape shape{m.tokens, m.rows, m.inner, m.lda, m.ldb, m.ldc, m.add, m.c_bf16};
  auto [it, fresh] = impl_->prepared.try_emplace(shape);
  Prepared& p = it->second;
  if (fresh) p.usable = impl_->prepare(stream, m, p);
  if (!p.usable) return false;
  return impl_->run(stream, m, p, p.algo, m.c);
}

}  // namespace runnel::cuda
