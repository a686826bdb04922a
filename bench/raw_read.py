"""How fast a disk gives the bytes of files: the ceiling that the store's benchmarks print beside their figures."""
import ctypes
import mmap
import os
import threading
import time

PIECE, DEPTH = 1 << 20, 32
HUGE_PAGE = 2 << 20


def huge_memory(size):
    """A view of private memory whose pages are there. A virtual disk reads much slower into small pages, each of which
    is a piece of work of its own. A shared mapping, Python's default, has no huge ones."""
    memory = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    begin = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % HUGE_PAGE
    for at in range(begin, begin + size, mmap.PAGESIZE):
        memory[at] = 1
    return memoryview(memory)[begin:begin + size]


def raw_rate(files):
    """Bytes a second of these files: pieces of 1 MiB past the kernel's cache, 32 at a time."""
    handles = [os.open(file, os.O_RDONLY | os.O_DIRECT) for file in files]
    pieces = iter([(handle, at) for handle in handles for at in range(0, os.fstat(handle).st_size, PIECE)])
    memory = huge_memory(DEPTH * PIECE)
    lock, total = threading.Lock(), [0] * DEPTH

    def read(number):
        into = [memory[number * PIECE:(number + 1) * PIECE]]
        while True:
            with lock:
                handle, at = next(pieces, (None, 0))
            if handle is None:
                return
            total[number] += os.preadv(handle, into, at)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(DEPTH)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    for handle in handles:
        os.close(handle)
    return sum(total) / seconds


def forget_cached(files):
    """The kernel's copies of these files go."""
    for file in files:
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)  # what is not written yet does not go
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def touch_memory(size):
    """A hypervisor may have taken free pages back, and gives each of them again more slowly than a disk reads it."""
    huge_memory(size).release()
