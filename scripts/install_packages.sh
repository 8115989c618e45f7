#!/usr/bin/env bash
# Installs the Debian packages of packages.txt that are missing; asks for root only then.
. "$(dirname "$0")/lib.sh"

missing=()
while read -r package; do
  [[ -z $package || $package == \#* ]] && continue
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [[ $status == *"ok installed" ]] || missing+=("$package")
done <"$RALLY_ROOT/scripts/packages.txt"

if [[ ${#missing[@]} -eq 0 ]]; then
  stage "packages: all there"
  exit 0
fi
stage "packages: installing ${missing[*]}"
command -v apt-get >/dev/null ||
  fail "apt-get is not here; install the packages of scripts/packages.txt by hand"
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || fail "installing packages needs root, and sudo is not here"
  as_root=(sudo)
fi
log="$RALLY_CACHE/log/apt.log"
quietly "$log" "${as_root[@]}" apt-get update
# Daemons that packages bring (prometheus) are tools here: they must not start by themselves.
quietly "$log" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
  apt-get install -y --no-install-recommends "${missing[@]}"
