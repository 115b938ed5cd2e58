#!/bin/sh
# A file system on the device, in user space and without root: fuse2fs mounts it, e2fsck and debugfs read it after a power
# cut. Packages of Debian: e2fsprogs, fuse2fs, fuse3.
#
#   on-ext2.sh make COMMAND...     make a file system on $file, and run the command there
#   on-ext2.sh run COMMAND...      run the command there
#   on-ext2.sh check COMMAND...    mend the file system on $image as after a power cut, and run the command on its files
#
# Commands get the folder with the files in $folder.
set -e
action=$1
shift
work=$(mktemp -d)
folder=$work/files
mkdir "$folder"
export folder

if [ "$action" = check ]; then
    trap 'rm -rf "$work"' EXIT
    # 1 and 2: something was mended.
    e2fsck -fy "$image" > "$work/e2fsck" 2>&1 || [ $? -le 2 ] || { cat "$work/e2fsck"; exit 1; }
    debugfs -R "rdump / $folder" "$image" > "$work/debugfs" 2>&1
    "$@"
    exit
fi

if [ "$action" = make ]; then
    # No features that put more of the file system into one block than a write of it can keep whole.
    mke2fs -q -t ext2 -b 4096 -N 64 "$file"
fi
trap 'fusermount3 -u "$folder"; while pgrep -f "^fuse2fs .* $folder" > /dev/null; do sleep 0.02; done; rm -rf "$work"' EXIT
fuse2fs -o fakeroot "$file" "$folder" > "$work/fuse2fs" 2>&1 || { cat "$work/fuse2fs"; exit 1; }
"$@"
