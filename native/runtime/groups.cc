#include "groups.h"

namespace shunya {

static std::vector<std::shared_ptr<Group>>& groups = *new std::vector<std::shared_ptr<Group>>;  // never destroyed: see regions.cc

int createGroup(int rank, int world, int control, const std::vector<int>& arenas, int deadlineMs) {
  if (rank >= world || (int)arenas.size() != world)
    throw RangeFailure{"createGroup: found rank " + std::to_string(rank) + " of " + std::to_string(world) + " with " +
                       std::to_string(arenas.size()) + " arenas; wanted a rank below the world's size, and one arena a rank"};
  regionRange(control, 0, Group::controlBytes(world), "createGroup", "control");
  std::vector<RegionPtr> mapped;
  for (const int arena : arenas) mapped.push_back(regionOf(arena, "createGroup.arenas"));
  groups.push_back(std::make_shared<Group>(rank, world, regionOf(control, "createGroup.control"), arenas[rank], std::move(mapped), deadlineMs));
  return (int)groups.size() - 1;
}

std::shared_ptr<Group> groupOf(int handle) {
  if (handle < 0 || handle >= (int)groups.size() || !groups[handle])
    throw RangeFailure{"found group " + std::to_string(handle) + "; wanted the number of an open group"};
  return groups[handle];
}

void destroyGroup(int handle) {
  const std::shared_ptr<Group> group = groupOf(handle);
  groups[handle] = nullptr;
  group->requestStop();
  group->stopExchanges();
}

void stopAllGroups() {
  for (auto& group : groups)
    if (group) group->requestStop();
  for (auto& group : groups)
    if (group) group->stopExchanges();
  groups.clear();
}

}  // namespace shunya
