#!/usr/bin/env bash
# Does what a new user does, on a bare Debian 12 in a debootstrap folder, with README alone: its first command ends in a
# running engine, the demo succeeds without any network, its second command passes the tests. Needs root and Debian's
# packages, takes half an hour of a processor's time or more, so ctest doesn't run it.
#   tests/packaging/readme_in_chroot.sh [FOLDER [WORD...]]   FOLDER: kept for the next run, made if missing
#                                                            WORDs go to bin/test (default: --quick)
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-$(mktemp -d)/debian}
shift || true
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(--quick)
passed=0

say() { printf '%s\n' "$*" >&2; }
fail() { say "FAIL: $*"; exit 1; }
ok() { passed=$((passed + 1)); say "ok: $* ($SECONDS s)"; }
inside=(chroot "$folder" /usr/bin/env -i HOME=/root USER=root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
  TERM=dumb)
# there COMMAND: as a user would type it in the folder of the project.
there() { "${inside[@]}" bash -c "cd /root/ranvier && $1"; }

[ "$(id -u)" -eq 0 ] || fail "only root can make a chroot"
if [ ! -d "$folder/usr" ]; then
  command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
  mkdir -p "$folder"
  debootstrap --variant=minbase bookworm "$folder" >"$folder.log" 2>&1 || fail "debootstrap: $(tail -3 "$folder.log")"
  # The same sources as here, mirrors and proxies too.
  rm -f "$folder/etc/apt/sources.list"
  cp -r /etc/apt/sources.list* /etc/apt/apt.conf.d "$folder/etc/apt/"
fi
cp /etc/resolv.conf "$folder/etc/resolv.conf"
mountpoint -q "$folder/proc" || mount -t proc proc "$folder/proc"
engine=
finish() {
  if [ -n "$engine" ] && kill "$engine" 2>/dev/null; then wait "$engine" || true; fi
  umount "$folder/proc" || true
}
trap finish EXIT

# --- the project as it is committed, and nothing else of this machine ---
mkdir -p "$folder/root/ranvier"
find "$folder/root/ranvier" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
git -C "$project" archive HEAD | tar -x -C "$folder/root/ranvier"
# The commands are README's own: what a reader would copy.
mapfile -t commands < <(sed -n '/^## Two commands/,/^## /s/^    \([^ #]*\).*/\1/p' "$project/README.md")
[ "${commands[*]}" = "bin/run bin/test" ] || fail "README's two commands are '${commands[*]}'"
demo=$(sed -n 's/^    \$ \(.* demo\)$/\1/p' "$project/README.md" | head -1)
[ -n "$demo" ] || fail "README shows no demo"

# --- the first command ---
ss -ltn 2>/dev/null | grep -q '127.0.0.1:844[89] ' && fail "somebody listens at 127.0.0.1:8448 or 8449 on this machine"
# As words and not by a function, so that what is in the background is the engine itself.
"${inside[@]}" bash -c "cd /root/ranvier && exec ${commands[0]}" >"$folder.run" 2>&1 &
engine=$!
while ! there 'build/release/ranvier status --data-dir ranvier-data' >"$folder.status" 2>/dev/null ||
  ! grep -q ready "$folder.status"; do
  kill -0 "$engine" 2>/dev/null || fail "${commands[0]} ended: $(tail -5 "$folder.run")"
  sleep 2
done
ok "${commands[0]} ends in a running engine: $(head -1 "$folder.status")"
kill "$engine"
wait "$engine" || fail "the engine ended with $?: $(tail -3 "$folder.run")"
engine=

# --- the demo, with loopback alone ---
alone=()
if unshare -n true 2>/dev/null && command -v ip >/dev/null; then
  alone=(unshare -n bash -c 'ip link set lo up && exec "$@"' alone)
fi
"${alone[@]}" "${inside[@]}" bash -c "cd /root/ranvier && $demo" >"$folder.demo" 2>&1 ||
  fail "the demo ended with $?: $(tail -5 "$folder.demo")"
ok "$demo${alone[0]:+, without a network}: $(tail -1 "$folder.demo")"

# --- the second command ---
there "${commands[1]} ${tests[*]}" >"$folder.tests" 2>&1 || fail "${commands[1]}: $(tail -15 "$folder.tests")"
ok "${commands[1]} ${tests[*]}: $(grep 'tests passed' "$folder.tests" | tail -1)"

# --- the package ---
there 'cmake --build build/release --target deb' >"$folder.deb" 2>&1 || fail "the package: $(tail -5 "$folder.deb")"
ok "the package is built: $(there 'ls build/release/ranvier_*.deb')"
say "all $passed steps passed"
