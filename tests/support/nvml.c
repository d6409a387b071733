/* A library of NVIDIA's driver that answers what a file says: recorded answers, no GPU.

   The file is named by NVML_RECORDED and is read again for each question, so that a device may be
   lost meanwhile. A line is a name and a value. `!15` is an error of NVML, `hang` writes a byte to
   the descriptor NVML_HANGS and answers never. Devices are `0`, `1`, ...; the parts of a divided
   one `0m0`, `0m1`, ... Shapes of functions: NVIDIA's nvml.h. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct device { char name[8]; } *handle;

static struct device devices[64];

static int ask(const char *of, const char *what, char *answer, size_t size)
{
    char wanted[64], line[256];
    const char *place = getenv("NVML_RECORDED");
    FILE *file = place ? fopen(place, "r") : NULL;
    int found = 0;
    snprintf(wanted, sizeof wanted, "%s%s%s ", of, *of ? "." : "", what);
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, wanted, strlen(wanted))) {
            snprintf(answer, size, "%s", line + strlen(wanted));
            found = 1;
        }
    }
    if (file)
        fclose(file);
    if (!found)
        return 3; /* not supported */
    if (answer[0] == '!')
        return atoi(answer + 1);
    if (!strcmp(answer, "hang")) {
        if (write(atoi(getenv("NVML_HANGS")), "!", 1) == 1)
            for (;;)
                pause();
    }
    return 0;
}

static int number(const char *of, const char *what, unsigned long long *value)
{
    char answer[256];
    int error = ask(of, what, answer, sizeof answer);
    if (!error)
        *value = strtoull(answer, NULL, 10);
    return error;
}

static int count(const char *of, const char *what, unsigned *value)
{
    unsigned long long found = 0;
    int error = number(of, what, &found);
    *value = (unsigned)found;
    return error;
}

static handle device(const char *name)
{
    int at = 0;
    while (devices[at].name[0] && strcmp(devices[at].name, name))
        at++;
    snprintf(devices[at].name, sizeof devices[at].name, "%s", name);
    return &devices[at];
}

int nvmlInitWithFlags(unsigned flags)
{
    unsigned open = 0;
    int error = count("", "init", &open);
    return error == 3 ? 0 : error;
}

int nvmlShutdown(void) { return 0; }

int nvmlSystemGetDriverVersion(char *text, unsigned size) { return ask("", "driver", text, size); }

int nvmlSystemGetCudaDriverVersion(int *version)
{
    return count("", "cuda", (unsigned *)version);
}

int nvmlDeviceGetCount_v2(unsigned *value) { return count("", "count", value); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *found)
{
    char name[8], answer[256];
    int error;
    snprintf(name, sizeof name, "%u", index % 100);
    error = ask(name, "name", answer, sizeof answer);
    *found = device(name);
    return error;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, handle *found)
{
    char name[256];
    int error = ask("", uuid, name, sizeof name);
    if (error)
        return 6; /* not found */
    name[7] = 0;
    *found = device(name);
    return 0;
}

int nvmlDeviceGetName(handle one, char *text, unsigned size)
{
    return ask(one->name, "name", text, size);
}

int nvmlDeviceGetUUID(handle one, char *text, unsigned size)
{
    return ask(one->name, "uuid", text, size);
}

int nvmlDeviceGetIndex(handle one, unsigned *index)
{
    *index = (unsigned)atoi(one->name);
    return 0;
}

int nvmlDeviceGetMemoryInfo(handle one, unsigned long long *memory)
{
    int error = number(one->name, "total", &memory[0]);
    if (!error)
        error = number(one->name, "used", &memory[2]);
    memory[1] = memory[0] - memory[2];
    return error;
}

int nvmlDeviceGetUtilizationRates(handle one, unsigned *rates)
{
    rates[1] = 0;
    return count(one->name, "busy", &rates[0]);
}

int nvmlDeviceGetPowerUsage(handle one, unsigned *milliwatts)
{
    return count(one->name, "milliwatts", milliwatts);
}

int nvmlDeviceGetTemperature(handle one, unsigned sensor, unsigned *degrees)
{
    return count(one->name, "degrees", degrees);
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle part, handle *whole)
{
    char name[8];
    snprintf(name, sizeof name, "%s", part->name);
    name[strcspn(name, "m")] = 0;
    *whole = device(name);
    return 0;
}
