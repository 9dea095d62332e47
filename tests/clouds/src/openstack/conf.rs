//! How clients are told of a project.

use super::Project;

impl Project {
    /// `cloud.conf` of the official cloud controller manager, section `[Global]`. `auth_url` may be a proxy's.
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
