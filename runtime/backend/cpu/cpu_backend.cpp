// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cpu/cpu_backend.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "runtime/backend/cpu/cpu_model.h"
#include "runtime/base/try.h"

namespace runnel::cpu {
namespace {

/// The vendor's name, as Linux reports it; on ARM it does not.
std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    if (value != std::string::npos) return line.substr(value);
  }
  return "CPU";
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(Isa isa, const Kernels& kernels, int threads) : kernels_(kernels), threads_(threads) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    device_ = {.id = "cpu",
               .backend = "cpu",
               .name = cpu_name(),
               .detail = std::string(isa_name(isa)),
               .memory_bytes = pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) *
                                                           static_cast<std::uint64_t>(page)
                                                     : 0};
  }

  const DeviceInfo& device() const override { return device_; }

  Result<std::unique_ptr<DeviceModel>> load(const LoadRequest& request) override {
    return CpuModel::load(request, kernels_, threads_);
  }

 private:
  const Kernels kernels_;
  int threads_;
  DeviceInfo device_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(int threads, std::optional<Isa> force) {
  if (threads < 0 || threads > 1024) {
    return fail(ErrorCode::invalid_argument, "threads is ", threads, ", expected 0 (all) to 1024");
  }
  const Isa isa = force.value_or(supported_isas().back());
  const std::optional<Kernels> kernels = find_kernels(isa);
  if (!kernels) {
    return fail(ErrorCode::unsupported, "this CPU has no ", isa_name(isa));
  }
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(isa, *kernels, threads));
}

}  // namespace runnel::cpu
