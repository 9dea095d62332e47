//! Client configuration for a project.

use super::Project;

impl Project {
    /// Returns the section `[Global]` of a `cloud.conf` for the official cloud controller manager.
    /// `auth_url` can be that of a proxy.
    #[must_use]
    pub fn cloud_conf(&self, auth_url: &str) -> String {
        format!(
            "[Global]\nauth-url={auth_url}\nusername={name}\npassword={}\ntenant-name={name}\ndomain-name=Default\n\
             region=RegionOne\n",
            self.password,
            name = self.name,
        )
    }
}
