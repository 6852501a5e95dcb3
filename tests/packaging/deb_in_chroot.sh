#!/usr/bin/env bash
# Tries the .deb on a bare Debian 12, in a debootstrap folder without systemd: it installs with its dependencies alone,
# the engine starts by its unit's own command line as its user, survives an upgrade with data and settings, and a purge
# leaves nothing. Needs root and Debian's packages; takes minutes, so ctest doesn't run it.
#   tests/packaging/deb_in_chroot.sh RANVIER.deb [FOLDER]      FOLDER: kept for the next run; made if missing
set -euo pipefail

package=$(realpath "$1")
folder=${2:-$(mktemp -d)/debian}
passed=0

say() { printf '%s\n' "$*" >&2; }
fail() { say "FAIL: $*"; exit 1; }
ok() { passed=$((passed + 1)); say "ok: $*"; }
# Words that run a command inside; as words, so that one put into the background is the engine itself.
inside=(chroot "$folder" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
  DEBIAN_FRONTEND=noninteractive)
inside() { "${inside[@]}" "$@"; }
as_engine=("${inside[@]}" setpriv --reuid ranvier --regid ranvier --clear-groups)

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
inside apt-get update -qq
inside dpkg --purge ranvier >/dev/null 2>&1 || true # of an earlier run
before=$(inside find / -xdev \( -path /proc -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg \
  -o -path /var/log -o -path /tmp \) -prune -o -print | sort)
cp "$package" "$folder/tmp/ranvier.deb"

# install PACKAGE: from the file, with what it depends on and nothing recommended.
install() {
  inside apt-get install -y -qq --no-install-recommends "$1" >"$folder.apt" 2>&1 ||
    fail "apt: $(tail -5 "$folder.apt")"
}

# --- installation ---
install /tmp/ranvier.deb
[[ $(inside ranvier version) == ranvier\ * ]] || fail "ranvier version"
missing=$(inside ldd /usr/bin/ranvier | grep 'not found' || true)
[ -z "$missing" ] || fail "libraries are missing: $missing"
ok "installed; every library is there"
grep -q 'set server_name' "$folder.apt" || fail "the installation doesn't say that a name is missing"
[ "$(inside stat -c %U:%a /var/lib/ranvier)" = ranvier:750 ] || fail "owner of /var/lib/ranvier"
[ "$(inside stat -c %U:%G:%a /etc/ranvier/ranvier.toml)" = root:ranvier:640 ] || fail "owner of the configuration"
[ -L "$folder/etc/systemd/system/multi-user.target.wants/ranvier.service" ] || fail "the unit isn't enabled"
for file in share/man/man1/ranvier.1.gz share/bash-completion/completions/ranvier \
    share/zsh/vendor-completions/_ranvier share/fish/vendor_completions.d/ranvier.fish \
    share/ranvier/monitoring/alerts.yml share/doc/ranvier/copyright; do
  grep -q "/usr/$file" <<<"$(dpkg-deb -c "$package")" || fail "/usr/$file isn't in the package"
done
ok "user, folders, configuration and unit are as they should be"

# --- start, by the unit's words ---
sed -i 's/^server_name = ""/server_name = "deb.test"/; s/:8448"/:28448"/; s/:8449"/:28449"/' \
  "$folder/etc/ranvier/ranvier.toml"
read -r -a start <<<"$(sed -n 's/^ExecStart=//p' "$folder/lib/systemd/system/ranvier.service")"
read -r -a check <<<"$(sed -n 's/^ExecStartPre=//p' "$folder/lib/systemd/system/ranvier.service")"
"${as_engine[@]}" "${check[@]}" 2>/dev/null || fail "check-config refuses the installed configuration with a name"
run_engine() {
  "${as_engine[@]}" "${start[@]}" >/dev/null 2>>"$folder.engine" &
  engine=$!
  for _ in $(seq 100); do
    if "${as_engine[@]}" ranvier status --data-dir /var/lib/ranvier >"$folder.status" 2>/dev/null &&
      grep -q ready "$folder.status"; then return 0; fi
    sleep 0.2
  done
  fail "the engine doesn't become ready: $(tail -3 "$folder.engine")"
}
stop_engine() { kill "$engine"; wait "$engine" || fail "the engine ended with $?"; engine=; }
run_engine
ok "the engine runs as its user: $(head -1 "$folder.status")"
printf '\n[log]\nlevel = "debug"\n' >>"$folder/etc/ranvier/ranvier.toml"
kill -HUP "$engine"
told='configuration_changed key=log.level'
for _ in $(seq 50); do grep -q "$told" "$folder.engine" && break; sleep 0.1; done
grep -q "$told" "$folder.engine" || fail "SIGHUP says nothing: $(tail -2 "$folder.engine")"
ok "reloaded: $(grep configuration_changed "$folder.engine" | tail -1 | cut -d' ' -f4-)"
stop_engine
identity=$(sha256sum <"$folder/var/lib/ranvier/signing.key")

# --- upgrade: the same program under a higher version ---
rm -rf "$folder/tmp/next" && mkdir "$folder/tmp/next"
dpkg-deb -R "$package" "$folder/tmp/next"
sed -i 's/^Version: .*/&+next/' "$folder/tmp/next/DEBIAN/control"
dpkg-deb --root-owner-group -b "$folder/tmp/next" "$folder/tmp/next.deb" >/dev/null
install /tmp/next.deb
[[ $(inside dpkg-query -W -f '${Version}' ranvier) == *+next ]] || fail "the upgrade didn't happen"
grep -q 'deb.test' "$folder/etc/ranvier/ranvier.toml" || fail "the upgrade changed the configuration"
[ "$identity" = "$(sha256sum <"$folder/var/lib/ranvier/signing.key")" ] || fail "the upgrade changed the signing key"
run_engine
stop_engine
ok "upgraded: settings, key and database are as they were, and the engine runs"

# --- remove keeps, purge takes ---
inside apt-get remove -y -qq ranvier >/dev/null 2>&1 || fail "apt-get remove"
[ -s "$folder/var/lib/ranvier/signing.key" ] && [ -s "$folder/etc/ranvier/ranvier.toml" ] || fail "remove took the data"
[ ! -e "$folder/usr/bin/ranvier" ] || fail "remove left the program"
ok "removed: data and settings stay"
inside apt-get purge -y -qq ranvier >/dev/null 2>&1 || fail "apt-get purge"
inside getent passwd ranvier >/dev/null && fail "purge left the user"
inside apt-get autoremove --purge -y -qq >/dev/null 2>&1
rm -rf "$folder/tmp/"*
after=$(inside find / -xdev \( -path /proc -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg \
  -o -path /var/log -o -path /tmp \) -prune -o -print | sort)
left=$(comm -13 <(echo "$before") <(echo "$after") | grep -i ranvier || true)
[ -z "$left" ] || fail "purge left: $left"
ok "purged: nothing of it is left"
say "all $passed steps passed"
