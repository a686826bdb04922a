#!/usr/bin/env bash
# Clients of Node.js, the Grafana dashboard by way of Prometheus, and the chat page in Chromium, each against a
# `rondo serve` of its own on the demo model. Prints a table of the clients.
#   test_clients.sh [RONDO]        build/bin/rondo unless given; npm packages go into build/clients
# Needs node, npm, chromium and prometheus (install_packages.sh clients), and the network the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
rondo=$(realpath "${1:-build/bin/rondo}")
packages=$PWD/build/clients
wanted="openai@6 ai@5 @ai-sdk/openai-compatible@1 @langchain/openai@0.6 @langchain/core@0.3 @llamaindex/openai@0.4
    @llamaindex/core@0.6 @llamaindex/env@0.1 zod@3 playwright-core@1.52"

for package in $wanted; do
    [ -d "$packages/node_modules/${package%@*}" ] && continue
    mkdir -p "$packages"
    # shellcheck disable=SC2086
    npm install --loglevel=error --no-audit --no-fund --prefix "$packages" $wanted
    break
done
export NODE_PATH=$packages/node_modules

RONDO=$rondo node --test tests/openai/openai_test.mjs
RONDO=$rondo CLIENT_TABLE=$packages/table.md node --test --test-reporter=spec tests/openai/clients_test.mjs
RONDO=$rondo node --test --test-reporter=spec tests/monitoring/dashboard_test.mjs

mkfifo "$packages/server.$$"
"$rondo" serve --port 0 --quiet --set 'pipeline.methods=[loopserve, snapkv]' \
    --set pipeline.prefill.attention.min_tokens=0 --set pipeline.decode.attention.budget_tokens=96 \
    >"$packages/server.$$" &
server=$!
trap 'kill $server 2>/dev/null && wait $server || true; rm -f "$packages/server.$$"' EXIT
read -r line <"$packages/server.$$" || { echo "rondo serve did not start" >&2; exit 1; }
BASE_URL=$(grep -o 'http://[^/]*' <<<"$line")
export BASE_URL
for tests in tests/page/*_test.mjs; do node --test "$tests"; done  # one after another: they share the server

cat "$packages/table.md"
