// This process's groups by handle. JavaScript thread only.
#pragma once
#include "group.h"

namespace shunya {

int createGroup(int rank, int world, int control, const std::vector<int>& arenas, int deadlineMs);
std::shared_ptr<Group> groupOf(int handle);  // throws RangeFailure
void destroyGroup(int handle);
void stopAllGroups();

}  // namespace shunya
