#!/bin/sh
# Puts knee below a prefix, or takes it away again.
#
#   ./install.sh [PREFIX]               [default: /usr/local]
#   ./install.sh --uninstall [PREFIX]
#
# What is put there is listed in PREFIX/share/knee/installed; only that is taken away. What a running kernel has loaded is undone
# first. Results stay where they were written.
set -eu
export LC_ALL=C
# Everybody may run what root installs.
umask 022
here=$(cd "$(dirname "$0")" && pwd)
say() { printf 'install.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

uninstall=
if [ "${1:-}" = --uninstall ]; then
	uninstall=yes
	shift
fi
case ${1:-} in -*) die "$1: usage: install.sh [--uninstall] [PREFIX]" ;; esac
prefix=${1:-/usr/local}
case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
list=$prefix/share/knee/installed
# What somebody else can write could lead root anywhere by a link. Above the prefix a sticky directory such as /tmp is no danger: what
# lies in it is its owner's.
check_above() {
	at=$1
	while [ -n "$at" ]; do
		others=$(find "$at/." "$at" -prune \( ! -user root -o ! -type l ! -perm -1000 \( -perm -0002 -o -perm -0020 ! -group 0 \) \) 2>/dev/null) || :
		[ -z "$others" ] || die "$at: others can write there: root installs only where root alone does"
		at=${at%/*}
	done
}
# Checks the directories of a file below the prefix.
check_below() {
	case $1 in */*) at=${1%/*} ;; *) at= ;; esac
	while :; do
		[ ! -L "$prefix/$at" ] || [ -z "$at" ] || die "$prefix/$at: is a link: root installs only into directories"
		others=$(find "$prefix/$at" -prune \( ! -user root -o -perm -0002 -o -perm -0020 ! -group 0 \) 2>/dev/null) || :
		[ -z "$others" ] || die "$prefix/$at: others can write there: root installs only where root alone does"
		case $at in */*) at=${at%/*} ;; '') return 0 ;; *) at= ;; esac
	done
}
if [ "$(id -u)" = 0 ]; then
	check_above "$prefix"
	# The same where its links lead.
	prefix=$(readlink -m -- "$prefix")
	check_above "$prefix"
	list=$prefix/share/knee/installed
fi

# Where each part goes: the part, then its place below the prefix.
parts() {
	printf '%s\n' "bin/knee bin/knee" "bash-completion/completions/knee share/bash-completion/completions/knee" \
		"zsh/vendor-completions/_knee share/zsh/site-functions/_knee" \
		"fish/vendor_completions.d/knee.fish share/fish/vendor_completions.d/knee.fish"
	(cd "$here" && for page in man/man1/*; do printf '%s %s\n' "$page" "share/$page"; done
	for file in doc/* README.md; do printf '%s %s\n' "$file" "share/doc/knee/${file##*/}"; done)
}

if [ "$(id -u)" = 0 ]; then
	check_below share/knee/installed
	for to in $(parts | cut -d ' ' -f 2); do check_below "$to"; done
	[ -z "$uninstall" ] || [ ! -f "$list" ] || while IFS= read -r file; do check_below "$file"; done <"$list"
fi

if [ -n "$uninstall" ]; then
	[ -f "$list" ] || die "$list is not there: nothing was installed below $prefix"
	code=0
	"$prefix/bin/knee" unload --all >&2 || code=$?
	case $code in
	0) ;;
	1) say "some of it stays in the kernel until its connections end, for the reason above" ;;
	*)
		# Where nothing is known to be loaded, it may lack the right to look.
		if [ -e /run/knee ] || [ -e /sys/fs/bpf/knee ] || "$prefix/bin/knee" status >/dev/null 2>&1; then
			die "nothing was removed: what is loaded could not be undone, for the reason above"
		fi
		;;
	esac
	directories=
	while IFS= read -r file; do
		case $file in
		*..* | /*) die "$list: \"$file\" is none that was installed" ;;
		# Deeper ones come later in the list.
		*/) directories="$file $directories" ;;
		*) rm -f "$prefix/$file" ;;
		esac
	done <"$list"
	rm -f "$list"
	# What somebody else has put something into stays.
	for directory in $directories; do rmdir "$prefix/$directory" 2>/dev/null || true; done
	say "knee is gone from $prefix"
	exit 0
fi

[ -x "$here/bin/knee" ] || die "bin/knee is not beside this script"
"$here/bin/knee" --version >/dev/null || die "this system cannot run knee: it needs glibc 2.36 or later, of $(uname -m)"
# Makes a directory below the prefix, and those that it is in, and prints the names of those that were not there.
make() {
	[ ! -d "$prefix/$1" ] || return 0
	case $1 in */*) make "${1%/*}" ;; esac
	mkdir "$prefix/$1"
	printf '%s/\n' "$1"
}
mkdir -p "$prefix"
# What an earlier one has made is still its to remove.
earlier=$([ ! -f "$list" ] || cat "$list")
made=$(make share/knee && parts | cut -d ' ' -f 2 | while read -r to; do make "${to%/*}"; done)
new=$(mktemp "$list.XXXXXXXX")
{ printf '%s\n%s\n' "$earlier" "$made" && parts | cut -d ' ' -f 2; } | grep . | sort -u >"$new"
parts | while read -r from to; do
	# Never into a binary that runs.
	rm -f "$prefix/$to.new"
	cp "$here/$from" "$prefix/$to.new"
	mv -f "$prefix/$to.new" "$prefix/$to"
done
chmod 644 "$new"
mv "$new" "$list"
say "$("$prefix/bin/knee" --version) is in $prefix; ./install.sh --uninstall $prefix takes it away"
