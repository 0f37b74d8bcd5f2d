/* Preloaded under the user-mode kernel. Linux 6.1 as a user process keeps a floating-point area of
 * fixed size, and PTRACE_SETREGSET refuses one that is smaller than the CPU's. So a write here reads
 * the whole area, lays the smaller one over its beginning and writes it back. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif

static unsigned char whole[1 << 16] __attribute__((aligned(64)));

long ptrace(enum __ptrace_request request, ...)
{
    va_list list;
    va_start(list, request);
    pid_t pid = va_arg(list, pid_t);
    void *addr = va_arg(list, void *);
    void *data = va_arg(list, void *);
    va_end(list);
    if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
        long word, failed = syscall(SYS_ptrace, (long)request, (long)pid, addr, &word);
        if (failed)
            return failed;
        errno = 0;
        return word;
    }
    if (request == PTRACE_SETREGSET && (unsigned long)addr == NT_X86_XSTATE) {
        struct iovec *given = data, all = {whole, sizeof whole};
        long failed = syscall(SYS_ptrace, (long)PTRACE_GETREGSET, (long)pid, addr, &all);
        if (!failed && all.iov_len > given->iov_len) {
            memcpy(whole, given->iov_base, given->iov_len);
            return syscall(SYS_ptrace, (long)request, (long)pid, addr, &all);
        }
    }
    return syscall(SYS_ptrace, (long)request, (long)pid, addr, data);
}
