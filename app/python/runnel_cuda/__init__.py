# SPDX-License-Identifier: Apache-2.0
"""Runnel's libraries with CUDA. `import runnel` takes them where this package is installed; it has nothing to call."""
