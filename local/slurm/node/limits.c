/* Imitates pam_limits of Linux-PAM 1.5 and systemd's LimitMEMLOCK on hosts whose kernel does not let the limit of locked memory be raised, as
 * in most containers. Preloaded into every program of a node: if a file of /etc/security/limits.d grants unlimited locked memory, the limit
 * reads as unlimited and can be set to it. No more memory can actually be locked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int granted(void)
{
    glob_t files;
    char line[256];
    int found = 0, before = errno;

    if (glob("/etc/security/limits.d/*.conf", 0, NULL, &files) == 0) {
        for (size_t i = 0; i < files.gl_pathc && !found; i++) {
            FILE *file = fopen(files.gl_pathv[i], "re");
            char who[64], kind[16], item[32], value[32];
            while (file && fgets(line, sizeof line, file))
                if (sscanf(line, "%63s %15s %31s %31s", who, kind, item, value) == 4 && who[0] == '*' && item[0] == 'm' && item[3] == 'l'
                    && value[0] == 'u')
                    found = 1;
            if (file)
                fclose(file);
        }
        globfree(&files);
    }
    errno = before;
    return found;
}

int prlimit64(pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *new, struct rlimit64 *old)
{
    int done = syscall(SYS_prlimit64, pid, resource, new, old);

    if (resource != RLIMIT_MEMLOCK || pid != 0)
        return done;
    if (done && new && errno == EPERM && granted())
        done = old ? syscall(SYS_prlimit64, pid, resource, NULL, old) : 0;
    if (!done && old && old->rlim_cur != RLIM64_INFINITY && granted())
        old->rlim_cur = old->rlim_max = RLIM64_INFINITY;
    return done;
}

/* On 64-bit machines these are the same types. */
int getrlimit64(__rlimit_resource_t resource, struct rlimit64 *limit) { return prlimit64(0, resource, NULL, limit); }
int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit) { return prlimit64(0, resource, limit, NULL); }
int getrlimit(__rlimit_resource_t resource, struct rlimit *limit) { return prlimit64(0, resource, NULL, (struct rlimit64 *)limit); }
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit) { return prlimit64(0, resource, (const struct rlimit64 *)limit, NULL); }
