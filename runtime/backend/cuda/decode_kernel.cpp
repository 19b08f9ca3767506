// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/decode_kernel.h"

#include "runtime/backend/cuda/decode_program.h"
#include "runtime/base/try.h"

namespace runnel::cuda {

Result<std::unique_ptr<DecodeKernel>> DecodeKernel::create(const ModelOnDevice& model,
                                                           const DecodeTuning& tuning) {
  if (prepare_decode() != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return std::unique_ptr<DecodeKernel>();
  }
  int shared = 0;
  RUNNEL_CHECK_OK(check(
      cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, model.device.index),
      "ask for shared memory"));
  const DecodeProgram program = make_decode_program(model.config, model.weights,
                                                    {model.device.multiprocessors, shared}, tuning);
  if (!program.fits) return std::unique_ptr<DecodeKernel>();
  auto kernel = std::make_unique<DecodeKernel>();
  Decode& d = kernel->decode_;
  d = program.decode;
  RUNNEL_TRY(kernel->layers_, device_array<DecodeLayer>(program.layers.size(), "decode layers"));
  RUNNEL_TRY(kernel->exchange_, device_array<float>(2 * static_cast<std::size_t>(d.at.total) +
                                                        static_cast<std::size_t>(d.d),
                                                    "what decode blocks exchange"));
  RUNNEL_TRY(kernel->trouble_, pinned_array<std::uint32_t>(1, "a flag"));
  const cudaStream_t stream = model.stream.get();
  RUNNEL_CHECK_OK(check(cudaMemcpyAsync(kernel->layers_.get(), program.layers.data(),
                                        kernel->layers_.bytes(), cudaMemcpyHostToDevice, stream),
                        "upload decode layers"));
  RUNNEL_CHECK_OK(kernel->clear(stream));
  d.layers = kernel->layers_.get();
  d.exchange = kernel->exchange_.get();
  d.trouble = kernel->trouble_.get();
  return kernel;
}

Status DecodeKernel::clear(cudaStream_t stream) {
  decode_.use = 0;
  decode_.final_bit = 1;
  *trouble_.get() = 0;
  RUNNEL_CHECK_OK(check(cudaMemsetAsync(exchange_.get(), 0, exchange_.bytes(), stream),
                        "clear what decode blocks exchange"));
  return check(cudaStreamSynchronize(stream), "clear what decode blocks exchange");
}

Status DecodeKernel::launch(cudaStream_t stream, const std::int32_t* token, const Segment* segment,
                            float* logits) {
  decode_.token = token;
  decode_.segment = segment;
  decode_.logits = logits;
  RUNNEL_CHECK_OK(check(decode_step(stream, decode_), "launch a token"));
  decode_.use += static_cast<std::uint32_t>(decode_.num_layers);
  decode_.final_bit ^= 1U;
  return {};
}

Status DecodeKernel::finished(cudaStream_t stream) {
  const std::uint32_t trouble = *static_cast<volatile std::uint32_t*>(trouble_.get());
  if (trouble == 0) return {};
  RUNNEL_CHECK_OK(clear(stream));
  return fail(ErrorCode::device, "cuda: a token did not come to its end: blocks waited too long (",
              trouble, ")");
}

}  // namespace runnel::cuda
