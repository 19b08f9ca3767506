# SPDX-License-Identifier: Apache-2.0
# Short names; bootstrap.sh does the work and needs no make.
.PHONY: chat test test-slow lint format
chat:
	./bootstrap.sh chat
test:
	./bootstrap.sh test
test-slow:
	tests/slow/run
lint:
	.ci/lint
format:
	git ls-files '*.cpp' '*.h' '*.cu' '*.cuh' | xargs clang-format -i
